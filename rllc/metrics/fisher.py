"""The trace of the Fisher information of a part at w*.

Shapes: P minibatches, C of them at once, D weights of the part, B rows, N rows of all minibatches, L positions,
V vocabulary, n tokens of a chunk.
"""

import hashlib
import json
import time

import numpy as np
import torch
from torch import Tensor

from rllc.metrics import hessian, scored
from rllc.models import beside, decoder, gradients
from rllc.models.chains import Weights
from rllc.models.loss import chunk_tokens
from rllc.models.pool import Pool
from rllc.models.restriction import restrict
from rllc.task import Estimate, Task

DRAWS = 64  # minibatches of beside.BATCH rows


def measure(task: Task, pool: Pool) -> Estimate:
    """Tr F of the part (nats per squared weight), F the mean over tokens of E ∇log p(y|x) ∇log p(y|x)ᵀ, y ~ p(·|x).

    The labels y are drawn from the model, not taken from the text (that is the "empirical Fisher"), so that Tr F is the
    trace of the Gauss–Newton matrix (Martens, JMLR 2020). Given the text the gradients of all tokens have mean 0 and
    are uncorrelated, so that one gradient serves all n tokens of a minibatch: E n ‖∇ mean loss‖² = Tr F. The mean of
    DRAWS minibatches; their spread holds the noise of rows and labels, which are the same for all parts of a
    checkpoint. Cost: a gradient on DRAWS × BATCH rows.
    """
    began = time.perf_counter()
    drawn = beside.kept(pool, f"labelled {task.seed} {task.run} {task.dataset}", lambda: labelled(task, pool))
    potential, found = restrict(drawn, task.part), []
    for rows_CB in torch.arange(DRAWS * beside.BATCH).view(-1, beside.CHAINS, beside.BATCH).to(drawn.tokens_NL.device):
        at_CD = gradients.flat(potential).expand(beside.CHAINS, -1)
        found.append(gradients.each(potential, at_CD, rows_CB).square().sum(1))
    potential.close()
    tokens = beside.BATCH * (drawn.tokens_NL.shape[1] - 1)
    stats = {"weights": float(at_CD.shape[1])}
    return scored.probes(task, tokens * torch.cat(found).double().cpu().numpy(), began=began, stats=stats)


def labelled(task: Task, pool: Pool) -> Pool:
    """The rows of all minibatches in their order, with a loss against labels drawn from the model at w*."""
    known = beside.several(pool)
    rows_N = hessian.minibatches(task, pool, DRAWS).flatten()
    name = json.dumps([task.seed, task.run, task.dataset, task.weights, "labels"]).encode()
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(name).digest(), "big"))
    blocks = rows_N.view(-1, beside.CHAINS, beside.BATCH)
    label_NL = torch.cat([_draw(known, rows_CB, rng).flatten(0, 1) for rows_CB in blocks])

    def loss(weights: Weights, last_CBLE: Tensor, rows_CB: Tensor) -> Tensor:
        return decoder.token_losses(weights, last_CBLE, label_NL[rows_CB]).mean(2)

    return Pool(known.weights, pool.model, pool.tokens_NL[rows_N], chains=beside.CHAINS, batch=beside.BATCH, loss=loss)


@torch.no_grad()
def _draw(pool: Pool, rows_CB: Tensor, rng: np.random.Generator) -> Tensor:
    """A next token for each position of the rows from the model's distribution, (C, B, L − 1)."""
    last_CBLE = decoder.last(pool.weights, pool.stream(pool.model.n_layers, rows_CB), pool.model)
    found = []
    chunk = chunk_tokens(pool.model.d_vocab, last_CBLE.dtype)
    for last_nE in torch.split(last_CBLE.flatten(0, 2), chunk):
        share_nV = (last_nE @ pool.weights["unembed"] + pool.weights["unembed.b"]).softmax(-1).cumsum(-1)
        goal_n = torch.from_numpy(rng.random(len(share_nV))).to(share_nV.device, share_nV.dtype)[:, None]
        found.append(torch.searchsorted(share_nV, goal_n).clamp(max=pool.model.d_vocab - 1)[:, 0])
    return torch.cat(found).view(last_CBLE.shape[:3])

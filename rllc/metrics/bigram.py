"""The bigram score: how near the model's predictions are to those of the text's bigrams, and the floor of that.

Shapes: N rows of the pool, L positions, E residual width, V vocabulary, T pairs of neighbours in the text.
"""

import math
import time

import torch
from torch import Tensor

from rllc.metrics import scored
from rllc.models import decoder, surgery
from rllc.models.pool import Pool
from rllc.task import Estimate, Task


def measure(task: Task, pool: Pool) -> Estimate:
    """Mean over text positions of H(b(·|x), p(·|context)), b the bigram distribution of the pool's own rows (nats).

    Least for a model that predicts by bigrams: the floor is their conditional entropy Σ_x b(x) H(b(·|x)), kept in
    `stats["floor"]`, and what is above it is the mean KL(b‖p). A model that uses more of the context than the last
    token leaves the floor again (Hoogland et al. 2024, bigram score). Standard error over rows. Bigrams of few rows are
    fewer than the language's, so that the floor is a little low. Cost: a forward pass over the pool.
    """
    began = time.perf_counter()
    pairs = pool.tokens_NL[:, :-1].reshape(-1), pool.tokens_NL[:, 1:].reshape(-1)
    follows_EV, offset_V = _mean_unembedding(pool, *pairs)

    def compute(rows_CB: Tensor) -> Tensor:
        last = decoder.last(pool.weights, pool.stream(pool.model.n_layers, rows_CB), pool.model)
        now, target = pool.tokens_NL[rows_CB][..., :-1], pool.tokens_NL[rows_CB][..., 1:]
        unembed, bias = pool.weights["unembed"].T, pool.weights["unembed.b"]
        chosen = (last * unembed[target]).sum(-1) + bias[target]
        expected = (last * follows_EV.T[now]).sum(-1) + offset_V[now]
        return (surgery.unchanged(pool, rows_CB) + chosen - expected).mean(-1)

    score_N = pool.once("bigram", compute)(pool.every)[0]
    return scored.rows(task, score_N, began=began, stats={"floor": floor(*pairs)})


def floor(before_T: Tensor, after_T: Tensor) -> float:
    """Conditional entropy H(after | before) of the pairs as they are counted (nats)."""
    pair = torch.stack([before_T, after_T])
    both, first = (torch.unique(x, dim=-1, return_counts=True)[1].double() for x in (pair, before_T))
    total = math.log(before_T.numel()) - (both * both.log()).sum() / before_T.numel()
    return float(total - (math.log(before_T.numel()) - (first * first.log()).sum() / before_T.numel()))


def _mean_unembedding(pool: Pool, before_T: Tensor, after_T: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_y b(y|x) U[:, y] and Σ_y b(y|x) u[y] for each token x: logits are linear, so a mean of them needs no V × V."""
    unembed_EV, bias_V = pool.weights["unembed"], pool.weights["unembed.b"]
    count_V = torch.bincount(before_T, minlength=pool.model.d_vocab).clamp(min=1)
    sum_VE = torch.zeros_like(unembed_EV.T, memory_format=torch.contiguous_format)
    share = 1 / count_V[before_T].to(bias_V.dtype)
    sum_VE.index_add_(0, before_T, unembed_EV.T[after_T] * share[:, None])
    return sum_VE.T, torch.zeros_like(bias_V).index_add_(0, before_T, bias_V[after_T] * share)

"""The bracket (Dyck) score: how much a head looks at the open bracket where the closing one comes next.

Shapes: N rows of the pool, H heads of a layer, L positions; C chains and B rows of a block.
"""

import functools
import time

import numpy as np
import torch
from torch import Tensor

from rllc.data import brackets
from rllc.metrics import scored
from rllc.mistake import Mistake
from rllc.models import attention
from rllc.models.parts import place
from rllc.models.pool import Pool
from rllc.task import Estimate, Task


def opened(pool: Pool) -> Tensor:
    """For each token the place of the one that opened the bracket that it closes, −1 where it closes none, (N, L).

    Raises:
        Mistake: there is no tokenizer beside the checkpoint.
    """
    if pool.tokenizer is None:
        raise Mistake("grid.metrics: brackets need a tokenizer.json beside the checkpoints, and there is none.")
    partner_NL = brackets.partners(pool.tokens_NL.cpu().numpy(), brackets.signs(pool.tokenizer))
    return torch.from_numpy(partner_NL).to(pool.tokens_NL.device)


def score(pattern: Tensor, opened_CBL: Tensor) -> Tensor:
    """Attention to the opening token summed over the positions before a closing one, (C, B, H).

    An opening token that is the very one before the closing one does not count: any head that rests on its own token
    would score.
    """
    partner = opened_CBL[..., 1:]
    counts = (partner >= 0) & (partner < torch.arange(partner.shape[-1], device=partner.device))
    mass = pattern[..., :-1, :].gather(-1, partner.clamp(min=0)[:, :, None, :, None].expand(*pattern.shape[:3], -1, 1))
    return (mass.squeeze(-1) * counts.unsqueeze(2)).sum(-1)


def closing(opened_NL: Tensor) -> Tensor:
    """How many positions of each row count, (N)."""
    places = torch.arange(opened_NL.shape[1] - 1, device=opened_NL.device)
    return ((opened_NL[:, 1:] >= 0) & (opened_NL[:, 1:] < places)).sum(1)


def measure(task: Task, pool: Pool) -> Estimate:
    """Mean attention of one head from the position before a closing bracket to the bracket's opening (share of 1).

    Over all such positions of the pool (the Dyck patterns of Wang et al. 2025, appendix B); the model predicts the
    closing bracket from the position before it. 0 where the text has no bracket. Standard error by the jackknife over
    groups of rows; `stats["positions"]` says how many there were.

    Raises:
        Mistake: there is no tokenizer beside the checkpoint.
    """
    began = time.perf_counter()
    layer, head = place(task.part)

    every = functools.cache(lambda: opened(pool))
    opened_NL = pool.once("opened", lambda rows_CB: every()[rows_CB])(pool.every)[0]

    def compute(rows_CB: Tensor) -> Tensor:
        return score(
            attention.patterns(pool.weights, layer, pool.stream(layer, rows_CB), pool.model), opened_NL[rows_CB]
        )

    mass_N = pool.once(f"brackets {layer}", compute)(pool.every)[0, :, head].double().cpu().numpy()
    count_N = closing(opened_NL).cpu().numpy()
    value, error = scored.without(lambda kept: float(mass_N[kept].sum() / max(count_N[kept].sum(), 1)), len(mass_N))
    return scored.of(task, value, error, began=began, stats={"positions": float(np.sum(count_N))})

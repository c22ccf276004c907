"""What a head attends to: mean attention probabilities, the behavioural scores of the circuits literature.

Shapes: N rows of the pool, H heads of a layer, L positions; C chains and B rows of a block.
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from rllc.metrics import scored
from rllc.models import attention
from rllc.models.parts import place
from rllc.models.pool import Pool
from rllc.task import Estimate, Task


def prev_token(pattern: Tensor, _tokens: Tensor) -> Tensor:
    """Mean attention from each position i ≥ 1 to position i − 1 (Elhage et al. 2021, Olsson et al. 2022)."""
    return pattern.diagonal(-1, dim1=-2, dim2=-1).mean(-1)


def current_token(pattern: Tensor, _tokens: Tensor) -> Tensor:
    """Mean attention from each position i ≥ 1 to itself; position 0 has no choice and is left out."""
    return pattern.diagonal(0, dim1=-2, dim2=-1)[..., 1:].mean(-1)


def first_token(pattern: Tensor, _tokens: Tensor) -> Tensor:
    """Mean attention from each position i ≥ 1 to the first, where a head rests that has nothing to do (a "sink")."""
    return pattern[..., 1:, 0].mean(-1)


def prefix(pattern: Tensor, tokens_CBL: Tensor) -> Tensor:
    """Prefix matching, the induction score (Olsson et al. 2022).

    Mean, over positions i whose token stood before in the row, of the attention from i to the positions right after
    the earlier copies. On rows of a random sequence said twice this is the attention from the second copy to the
    token that followed the first one.
    """
    earlier = tokens_CBL[..., :, None] == tokens_CBL[..., None, :]  # query position, then earlier position
    earlier = earlier.tril(-1)
    after = torch.zeros_like(earlier)
    after[..., :, 1:] = earlier[..., :, :-1]
    after = after.tril()
    counts = earlier.any(-1)
    mass = (pattern * after.unsqueeze(-3)).sum(-1)
    return (mass * counts.unsqueeze(-2)).sum(-1) / counts.sum(-1).clamp(min=1).unsqueeze(-1)


def measure(task: Task, pool: Pool, score: Callable[[Tensor, Tensor], Tensor]) -> Estimate:
    """One score of one head: its mean over the rows of the pool, with the standard error over rows."""
    began = time.perf_counter()
    layer, head = place(task.part)
    assert head >= 0

    def compute(rows_CB: Tensor) -> Tensor:
        pattern = attention.patterns(pool.weights, layer, pool.stream(layer, rows_CB), pool.model)
        return score(pattern, pool.tokens_NL[rows_CB])

    score_N = pool.once(f"{task.metric} {layer}", compute)(pool.every)[0, :, head]
    return scored.rows(task, score_N, began=began)

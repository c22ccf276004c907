"""What the loss rises by when a head no longer writes what it computed: zero, mean and resampling ablation.

Shapes: N rows of the pool of few rows, B rows of a block, L positions, E residual width.
"""

import functools
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from rllc.metrics import scored
from rllc.models import beside, surgery
from rllc.models.parts import place
from rllc.models.pool import Pool
from rllc.task import Estimate, Task

Instead = Callable[[Tensor, Tensor], Tensor]
"""What is written instead of the output (1, B, L, E) on rows (1, B) of the pool."""


class Kind(Protocol):
    """A way to ablate: `zero`, `mean` or `resample`."""

    __name__: str

    def __call__(self, pool: Pool, layer: int, head: int, /) -> Instead:
        """What is written instead of the output of one head."""


def zero(_pool: Pool, _layer: int, _head: int) -> Instead:
    """Nothing is written (Olsson et al. 2022)."""
    return lambda output, _rows: torch.zeros_like(output)


def mean(pool: Pool, layer: int, head: int) -> Instead:
    """The head's mean output over all rows and positions, one vector (as Wang et al. 2022, for texts without slots)."""
    total_E = torch.zeros(pool.model.d_model, dtype=torch.float64, device=pool.tokens_NL.device)
    for rows_CB in surgery.blocks(pool):
        total_E += surgery.output(pool, layer, head, pool.stream(layer, rows_CB)).sum((0, 1, 2), dtype=torch.float64)
    mean_E = (total_E / pool.tokens_NL.numel()).to(pool.weights["embed"].dtype)
    return lambda output, _rows: mean_E.expand_as(output)


def resample(pool: Pool, layer: int, head: int) -> Instead:
    """What the head writes at the same position of another row (resampling ablation, Chan et al. 2022)."""
    other_N = partners(pool)
    return lambda _output, rows: surgery.output(pool, layer, head, pool.stream(layer, other_N[rows]))


def partners(pool: Pool) -> Tensor:
    """For each row another one, each once, (N): the same for every head and checkpoint."""
    count = len(pool.tokens_NL)
    order = np.random.default_rng(0).permutation(count)  # one cycle through all, so that none is its own partner
    other_N = np.empty(count, np.int64)
    other_N[order] = np.roll(order, 1)
    return torch.from_numpy(other_N).to(pool.tokens_NL.device)


def effects(pool: Pool, layer: int, head: int, kind: Kind) -> Tensor:
    """ℓ(ablated) − ℓ(w*) of each next token of the pool (nats), (N, L − 1); computed once for the pool."""
    instead = functools.cache(lambda: kind(pool, layer, head))

    def compute(rows_CB: Tensor) -> Tensor:
        output = surgery.output(pool, layer, head, pool.stream(layer, rows_CB))
        ablated = surgery.changed(pool, layer, instead()(output, rows_CB) - output, rows_CB)
        return ablated - surgery.unchanged(pool, rows_CB)

    return pool.once(f"{kind.__name__} {layer}.{head}", compute)(pool.every)[0]


def measure(task: Task, pool: Pool, *, kind: Kind) -> Estimate:
    """The mean of ℓ(ablated) − ℓ(w*) over rows and tokens (nats per token), with the standard error over rows.

    The head's output is replaced in the stream, and everything above it sees that; `kind` is `zero`, `mean` or
    `resample`. Cost: a forward pass from the head's layer on over the pool of few rows (`beside.few`).
    """
    began = time.perf_counter()
    return scored.rows(task, effects(beside.few(pool), *place(task.part), kind).mean(1), began=began)

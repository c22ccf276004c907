"""Estimates of what has no chains: a number with a standard error, or one number a row.

Shapes: N rows, G groups of them.
"""

import math
import time
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rllc import version
from rllc.task import Estimate, Task

GROUPS = 16  # of rows, one of which is left out in turn


def of(
    task: Task, value: float, error: float, *, began: float, stats: Mapping[str, float] | None = None,
    draws: NDArray[np.float64] | None = None,
) -> Estimate:  # fmt: skip
    """An estimate from its numbers; diverged, with NaN for both, where the value is not finite.

    `draws` are independent values whose mean it is, `began` is the time.perf_counter() of its start.
    """
    finite = math.isfinite(value)
    return Estimate(
        task=task,
        value=value if finite else math.nan,
        error=error if finite else math.nan,
        chains_C=np.empty(0) if draws is None else draws,
        loss_CS=np.empty((0, 0), np.float32),
        health="ok" if finite else "diverged",
        reason="" if finite else f"{task.metric} is not finite",
        stats=dict(stats or {}),
        seconds=time.perf_counter() - began,
        code=version.code(),
    )


def rows(task: Task, score_N: Tensor, *, began: float, stats: Mapping[str, float] | None = None) -> Estimate:
    """The mean over rows with its standard error, which is NaN for a single row."""
    score = score_N.double().cpu().numpy()
    if not np.isfinite(score).all():
        return of(task, math.nan, math.nan, began=began, stats=stats)
    error = float(score.std(ddof=1)) / math.sqrt(len(score)) if len(score) > 1 else math.nan
    return of(task, float(score.mean()), error, began=began, stats=stats)


def probes(task: Task, draw_N: NDArray[np.float64], *, began: float, stats: Mapping[str, float]) -> Estimate:
    """The mean of independent draws with its standard error, N − 1 degrees of freedom."""
    if not np.isfinite(draw_N).all():
        return of(task, math.nan, math.nan, began=began, stats=stats, draws=draw_N)
    error = float(draw_N.std(ddof=1)) / math.sqrt(len(draw_N))
    stats = {**stats, "freedom": len(draw_N) - 1.0}
    return of(task, float(draw_N.mean()), error, began=began, stats=stats, draws=draw_N)


def without(value: Callable[[NDArray[np.bool_]], float], rows: int) -> tuple[float, float]:
    """A statistic of rows and its standard error by the jackknife (Tukey 1958): one of GROUPS groups left out in turn.

    `value` gives the statistic of the rows of a mask (N). SE² = (G − 1)/G · Σ (θ_g − mean θ)².
    """
    group_N = np.arange(rows) % min(GROUPS, rows)
    each = np.array([value(group_N != g) for g in range(group_N.max() + 1)])
    whole = value(np.ones(rows, bool))
    if len(each) < 2:
        return whole, math.nan
    return whole, math.sqrt((len(each) - 1) / len(each) * ((each - each.mean()) ** 2).sum())

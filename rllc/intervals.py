"""Intervals from few chains: standard errors with their degrees of freedom, and Student's t.

Shapes: C chains, S kept draws.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

COVERAGE = 0.95
BATCHES = 5  # of a single chain: with fewer draws than its error needs, few degrees of freedom do the least harm


def quantile(freedom: float, coverage: float = COVERAGE) -> float:
    """Half width of an interval in standard errors: Student's t; the normal's at infinite `freedom`, NaN at NaN."""
    return float(special.stdtrit(freedom, (1 + coverage) / 2))


def freedom(errors: Sequence[float], freedoms: Sequence[float]) -> float:
    """Degrees of freedom of √(Σ e²), e independent standard errors (Satterthwaite 1946; Welch 1947).

    ν = (Σ e²)² / Σ (e⁴/ν_e), between the least ν_e and their sum; the sum where every error is 0, NaN where one is NaN.
    """
    total = math.hypot(*errors)
    if total == 0:
        return float(sum(freedoms))
    shares = [(error / total) ** 2 for error in errors]
    return 1 / sum(share**2 / each for share, each in zip(shares, freedoms, strict=True))


def standard_error(draw_CS: NDArray[np.float64]) -> tuple[float, float]:
    """Standard error of the mean of all draws, and its degrees of freedom.

    Several chains: the spread of their means over √C, C − 1 degrees of freedom; it holds the autocorrelation of the
    draws. A single chain: the same of its BATCHES consecutive pieces (batch means: Schmeiser, Operations Research 30,
    1982); with all directions at the slowest relaxation 1/a the 95 % interval covers 85 % at 4 times 1/a, 90 % at 10,
    93 % at 20 and 94 % at 40. NaN below two draws a piece.
    """
    mean_C = draw_CS.mean(1)
    if len(mean_C) == 1:
        size = draw_CS.shape[1] // BATCHES
        if size < 2:
            return math.nan, math.nan
        mean_C = draw_CS[0, -BATCHES * size :].reshape(BATCHES, size).mean(1)
    return float(mean_C.std(ddof=1)) / math.sqrt(len(mean_C)), len(mean_C) - 1.0

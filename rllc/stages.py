"""Developmental stages: where a curve of the whole model stands still between times of change, and how sure that is.

Shape letters: T measured points, G grid points, B draws, N boundaries.
"""

import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rllc.trajectories import axis, unit

Values = NDArray[np.float64]

GRID = 400  # points of the smoothed curve
DRAWS = 200  # of the smoothed curve, given the points and their errors
LEAST = 0.9  # share of the draws that have to have a boundary
DEPTH = 0.5  # a boundary is slower than this share of the fastest change on both of its sides
SURE = 4.0  # standard deviations of its slope that a change has to have
FEWEST = 6  # points of a curve that is smoothed
COVERAGE = (0.05, 0.95)


@dataclass(frozen=True)
class Boundary:
    """A training step at which one stage ends and the next begins.

    Attributes:
        step: where the smoothed curve changes least.
        low: 5 % quantile of that step over the draws.
        high: 95 % quantile.
        share: of the draws in which there is such a step.
    """

    step: float
    low: float
    high: float
    share: float


def find(steps: Sequence[float], value_T: Values, error_T: Values, *, seed: int = 0) -> list[Boundary]:
    """Find the boundaries of stages of one curve, as the LLC of the whole model or its loss.

    The curve is smoothed against x = log(1 + step/unit) by a Gaussian process (constant times squared exponential, and
    white noise beside the known errors; its scales by marginal likelihood). A stage ends where |dy/dx| has a local
    minimum that is less than DEPTH times the largest |dy/dx| between it and its neighbour on each side: critical points
    of the curve, and plateaus between two rises. In each of DRAWS curves of the posterior it is looked for between
    the same two fastest changes, which have to have the same signs and to be as much faster; a boundary counts if at
    least LEAST of the curves have it, and its interval is where they have it. (Plateaus and critical points of a
    smoothed LLC: Hoogland and others, arXiv 2402.02364.)

    Args:
        steps: training steps, ascending.
        value_T: the curve; points that are not finite are left out.
        error_T: standard errors; 0 is taken where they are unknown, and the noise is then found from the curve alone.
        seed: of the draws.

    Returns:
        The boundaries in ascending order; none where fewer than FEWEST points are known or the curve is constant.
    """
    known_T = np.isfinite(value_T)
    if known_T.sum() < FEWEST or np.ptp(value_T[known_T]) == 0:
        return []
    at_T = axis(steps)[known_T]
    at_G = np.linspace(at_T[0], at_T[-1], GRID)
    mean_G, drawn_BG = _smooth(at_T, value_T[known_T], np.nan_to_num(error_T[known_T]), at_G, seed)
    slope_G, slope_BG = np.gradient(mean_G, at_G), np.gradient(drawn_BG, at_G, axis=1)
    scale, found = unit(steps), []
    places = _slow(slope_G, slope_BG.std(axis=0))
    for place, (left, right) in zip(places, _basins(slope_G, places), strict=True):
        at_B, has_B = _again(slope_BG[:, left : right + 1], np.sign(slope_G[[left, right]]))
        if has_B.mean() >= LEAST:
            ends = np.quantile(at_G[left + at_B[has_B]], COVERAGE)
            step, low, high = (float(scale * np.expm1(x)) for x in (at_G[place], *ends))
            found.append(Boundary(step, low, high, float(has_B.mean())))
    return found


def _again(slope_BG: Values, sign_2: Values) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Find in each draw where it is slowest between two fast changes, and whether that is a boundary."""
    fast_B2 = slope_BG[:, [0, -1]] * sign_2
    slowest_B = np.abs(slope_BG).min(axis=1)
    turns_B = (slope_BG[:, :-1] * slope_BG[:, 1:] < 0).any(axis=1)
    has_B = (fast_B2 > 0).all(axis=1) & (turns_B | (slowest_B < DEPTH * fast_B2.min(axis=1)))
    return np.abs(slope_BG).argmin(axis=1), has_B


def binned(steps: Sequence[float], loss_T: Values, bins: int = 60) -> tuple[list[float], Values, Values]:
    """Average a noisy loss, as of single minibatches, over steps that are even on the log-like axis.

    Returns:
        Mean step of each bin that holds points, mean loss, and its standard error (0 for a single point).
    """
    at_T = axis(steps)
    bin_T = np.minimum((bins * (at_T - at_T[0]) / (np.ptp(at_T) or 1)).astype(int), bins - 1)
    inside = [np.flatnonzero((bin_T == b) & np.isfinite(loss_T)) for b in range(bins)]
    inside = [of for of in inside if of.size]
    mean = np.array([loss_T[of].mean() for of in inside])
    error = np.array([loss_T[of].std(ddof=1) / np.sqrt(of.size) if of.size > 1 else 0.0 for of in inside])
    return [float(np.mean(np.asarray(steps)[of])) for of in inside], mean, error


def spans(boundaries: Sequence[float], steps: Sequence[float]) -> list[tuple[float, float]]:
    """Give the stages between boundaries, from the first to the last step."""
    edges = [float(min(steps)), *sorted(b for b in boundaries if min(steps) < b < max(steps)), float(max(steps))]
    return list(itertools.pairwise(edges))


def _smooth(at_T: Values, value_T: Values, error_T: Values, at_G: Values, seed: int) -> tuple[Values, Values]:
    """Give mean and draws of the smoothed curve on a grid."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    middle, size = value_T.mean(), value_T.std()
    span = float(np.ptp(at_T))
    smooth = ConstantKernel(1.0, (1e-2, 1e3)) * RBF(span / 6, (span / 40, 3 * span))
    process = GaussianProcessRegressor(
        smooth + WhiteKernel(1e-3, (1e-7, 1.0)), alpha=(error_T / size) ** 2 + 1e-10, n_restarts_optimizer=2,
        random_state=seed,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a scale at its bound is an answer
        process.fit(at_T[:, None], (value_T - middle) / size)
    process.kernel_ = process.kernel_.set_params(k2__noise_level=1e-12)  # of the curve, not of new points
    mean_G = process.predict(at_G[:, None])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="covariance is not symmetric positive-semidefinite")
        drawn_BG = process.sample_y(at_G[:, None], DRAWS, random_state=seed).T
    return middle + size * mean_G, middle + size * drawn_BG


def _slow(slope_G: Values, spread_G: Values) -> list[int]:
    """Find the local minima of |slope| that are deep enough, between changes that are sure."""
    fast_G = np.abs(slope_G)
    inner = np.flatnonzero((fast_G[1:-1] <= fast_G[:-2]) & (fast_G[1:-1] < fast_G[2:])) + 1
    turning = np.flatnonzero(slope_G[:-1] * slope_G[1:] < 0)
    found = sorted({*inner.tolist(), *(int(g) for g in turning if g not in inner and g + 1 not in inner)})
    while found:
        pieces = list(itertools.pairwise([0, *found, len(fast_G) - 1]))
        sure = [float((fast_G[one : other + 1] / spread_G[one : other + 1]).max()) for one, other in pieces]
        n = int(np.argmin(sure))
        if sure[n] < SURE:  # nothing happens between these two: they are one, or the end
            near = found[max(n - 1, 0) : n + 1]
            found.remove(max(near, key=lambda g: fast_G[g]))
            continue
        peak = [float(fast_G[one : other + 1].max()) for one, other in pieces]
        depth = [fast_G[at] / min(pair) for at, pair in zip(found, itertools.pairwise(peak), strict=True)]
        if max(depth) < DEPTH:
            break
        found.pop(int(np.argmax(depth)))
    return found


def _basins(slope_G: Values, places: Sequence[int]) -> list[tuple[int, int]]:
    """Give for each minimum the stretch between the fastest changes on its two sides."""
    fast_G, edges = np.abs(slope_G), [0, *places, len(slope_G) - 1]
    return [
        (left + int(fast_G[left : at + 1].argmax()), at + int(fast_G[at : right + 1].argmax()))
        for left, at, right in zip(edges[:-2], edges[1:-1], edges[2:], strict=True)
    ]

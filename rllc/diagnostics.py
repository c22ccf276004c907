"""What can be said of a set of chains from their traces alone: mixing, bias, health.

Shapes: C chains, S kept draws.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from rllc.task import Sampler

RELAXATIONS = 3.0  # fewer relaxation times than this in the kept draws: short
STEIN = 1.25  # a Stein ratio above this means a step-size bias of a quarter in the mean direction: suspect
RHAT = 1.5  # with a few dozen correlated draws a chain lacks the length for the customary 1.01 … 1.1
NEGATIVE = 6.0  # standard errors below 0: even with three degrees of freedom less than one in two hundred by chance
DRIFT_P, DRIFT_SHARE = 0.001, 0.25  # the halves differ surely, and by a quarter of the value


@dataclass(frozen=True)
class Health:
    """ok, suspect, short or diverged, with a reason in a few words."""

    state: str
    reason: str = ""


def rhat(trace_CS: NDArray[np.float64]) -> float:
    """Split R-hat (Gelman et al., Bayesian Data Analysis, 3rd ed., §11.4); NaN for fewer than 4 draws or no spread."""
    half = trace_CS.shape[1] // 2
    if half < 2:
        return math.nan
    split = np.concatenate([trace_CS[:, :half], trace_CS[:, -half:]])
    within = split.var(1, ddof=1).mean()
    between = half * split.mean(1).var(ddof=1)
    return float(math.sqrt(((half - 1) * within + between) / (half * within))) if within > 0 else math.nan


def effective_draws(trace_CS: NDArray[np.float64]) -> float:
    """Effective number of draws of all chains, C S / τ, by Geyer's initial monotone positive sequence (1992).

    τ = 1 + 2 Σ_t ρ_t with autocorrelations averaged over chains about each chain's own mean; NaN without spread.
    """
    chains, draws = trace_CS.shape
    centred = trace_CS - trace_CS.mean(1, keepdims=True)
    variance = float((centred**2).mean())
    if draws < 4 or variance <= 0:
        return math.nan
    rho = (
        np.array([(centred[:, lag:] * centred[:, : draws - lag]).sum() / (chains * draws) for lag in range(draws)])
        / variance
    )
    pairs = rho[0 : draws - draws % 2 : 2] + rho[1::2]
    negative = np.flatnonzero(pairs <= 0)
    monotone = np.minimum.accumulate(pairs[: negative[0] if len(negative) else len(pairs)])
    tau = max(2.0 * float(monotone.sum()) - 1.0, 1.0 / draws)
    return float(chains * draws / tau)


def drift(trace_CS: NDArray[np.float64]) -> tuple[float, float]:
    """Second half minus first half of the kept draws, averaged over chains, and its two-sided Student p-value.

    p is NaN with a single chain or no spread between chains.
    """
    half = trace_CS.shape[1] // 2
    if half == 0:
        return 0.0, math.nan
    change_C = trace_CS[:, -half:].mean(1) - trace_CS[:, :half].mean(1)
    spread = change_C.std(ddof=1) / math.sqrt(len(change_C)) if len(change_C) > 1 else 0.0
    mean = float(change_C.mean())
    return mean, float(2 * stats.t.sf(abs(mean) / spread, len(change_C) - 1)) if spread > 0 else math.nan


def burn_in_bias(sampler: Sampler) -> float:
    """Relative bias of the softest direction because the chains start at w*: −mean over kept draws of ρ^{2t}.

    ρ = 1 − εγ/2 is the slowest relaxation a convex direction can have; −1 when γ = 0 (nothing is known).
    """
    rho = 1.0 - sampler.lr * sampler.gamma / 2
    kept = sampler.burn_in + sampler.every * np.arange(sampler.draws)
    return -float(np.mean(rho ** (2.0 * kept)))


def health(trace_CS: NDArray[np.float64], sampler: Sampler, *, stein: float) -> Health:
    """Judge the kept draws; `stein` is the measured Stein sum per weight (1 for an exact sampler)."""
    if not np.isfinite(trace_CS).all() or not math.isfinite(stein):
        return Health("diverged", "a loss or a weight is not finite")
    span = sampler.draws * sampler.every
    relaxation = 2 / (sampler.lr * sampler.gamma) if sampler.lr * sampler.gamma > 0 else 0.0
    if span < RELAXATIONS * relaxation:
        return Health("short", f"{span} kept steps are {span / relaxation:.1f} relaxation times of γ")
    if stein > STEIN:
        return Health("suspect", f"step too large: Stein ratio {stein:.2f}")
    mixing = rhat(trace_CS)
    if mixing > RHAT:
        return Health("suspect", f"chains disagree: R-hat {mixing:.2f}")
    mean_C = trace_CS.mean(1)
    if len(mean_C) > 1 and mean_C.mean() < -NEGATIVE * mean_C.std(ddof=1) / math.sqrt(len(mean_C)):
        return Health("suspect", "below 0 for sure: the checkpoint is no minimum of this loss")
    change, p = drift(trace_CS)
    if p < DRIFT_P and abs(change) > DRIFT_SHARE * abs(trace_CS.mean()):
        return Health("suspect", f"the trace still drifts: {change / abs(trace_CS.mean()):+.0%} between its halves")
    return Health("ok")

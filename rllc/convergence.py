"""Whether chains have forgotten their start and agree, from their traces alone.

Shapes: C chains, S kept draws, K lags.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

Values = NDArray[np.float64]

FIRST, LAST = 0.1, 0.5  # windows of Geweke 1992
ALPHA, DISCARDED = 0.05, (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # level and tried cuts of Heidelberger and Welch 1983
LEAST = 20  # draws, below which a tenth of a chain says nothing


def rhat(trace_CS: Values) -> float:
    """Split R-hat (Gelman et al., Bayesian Data Analysis, 3rd ed., §11.4); NaN for fewer than 4 draws or no spread.

    √((h − 1)/h + B/W): W the mean variance of the half chains, B the variance of their means, h their length. 1 where
    all halves agree.
    """
    half = trace_CS.shape[1] // 2
    if half < 2:
        return math.nan
    split = np.concatenate([trace_CS[:, :half], trace_CS[:, -half:]])
    within = split.var(1, ddof=1).mean()
    between = half * split.mean(1).var(ddof=1)
    return float(math.sqrt(((half - 1) * within + between) / (half * within))) if within > 0 else math.nan


def effective_draws(trace_CS: Values) -> float:
    """Effective number of draws of all chains, C S / τ, by Geyer's initial monotone positive sequence (1992).

    τ = 1 + 2 Σ_t ρ_t with autocorrelations averaged over chains about each chain's own mean; NaN without spread.
    """
    chains, draws = trace_CS.shape
    rho_K = _autocovariance(trace_CS)
    if not len(rho_K):
        return math.nan
    monotone = np.minimum.accumulate((rho_K[::2] + rho_K[1::2]) / rho_K[0])
    return float(chains * draws / max(2.0 * float(monotone.sum()) - 1.0, 1.0 / draws))


def change(trace_CS: Values, first: float, last: float) -> tuple[float, float]:
    """Mean of the last draws minus mean of the first, averaged over chains, and its two-sided Student p-value.

    `first` and `last` are shares of the draws. The spread between chains tells the error, so skewed and correlated
    draws do no harm; p is NaN with a single chain or no spread between chains.
    """
    draws = trace_CS.shape[1]
    if int(first * draws) == 0:
        return 0.0, math.nan
    change_C = trace_CS[:, -int(last * draws) :].mean(1) - trace_CS[:, : int(first * draws)].mean(1)
    spread = change_C.std(ddof=1) / math.sqrt(len(change_C)) if len(change_C) > 1 else 0.0
    mean = float(change_C.mean())
    return mean, float(2 * special.stdtr(len(change_C) - 1, -abs(mean) / spread)) if spread > 0 else math.nan


def geweke(trace_CS: Values) -> Values:
    """Score z of each chain: mean of the first tenth minus mean of the last half, in standard errors (Geweke 1992).

    The variance of a window's mean takes the autocovariances of all chains about their own means in the last half, so
    that a transient in the first tenth does not hide itself. Empty below LEAST draws or without spread.
    """
    draws = trace_CS.shape[1]
    first_CS, last_CS = trace_CS[:, : int(FIRST * draws)], trace_CS[:, -int(LAST * draws) :]
    covariance_K = _autocovariance(last_CS)
    if draws < LEAST or not len(covariance_K):
        return np.empty(0)
    variance = sum(_of_mean(covariance_K, window.shape[1]) for window in (first_CS, last_CS))
    return np.asarray((first_CS.mean(1) - last_CS.mean(1)) / math.sqrt(variance))


def stationary(trace_CS: Values) -> NDArray[np.bool_]:
    """Which chains pass the stationarity test of Heidelberger and Welch (1983), up to half of the draws left aside.

    After a cut of 0, 10, … 50 %, the Cramér–von Mises statistic ∫ B² of the bridge B(t) = (Σ_{s ≤ tn} x_s − tn x̄) /
    √(n S0), S0 the long-run variance over the last halves of all chains, must not reach its upper 5 % point. Empty
    below LEAST draws or without spread.
    """
    draws = trace_CS.shape[1]
    covariance_K = _autocovariance(trace_CS[:, draws // 2 :])
    if draws < LEAST or not len(covariance_K):
        return np.empty(0, bool)
    long_run = _of_mean(covariance_K, draws // 2) * (draws // 2)
    passed = np.zeros(len(trace_CS), bool)
    for share in DISCARDED:
        left_CS = trace_CS[:, int(share * draws) :]
        bridge_CS = np.cumsum(left_CS - left_CS.mean(1, keepdims=True), 1)
        statistic_C = (bridge_CS**2).mean(1) / (left_CS.shape[1] * long_run)
        passed |= np.array([cramer_von_mises(float(each)) >= ALPHA for each in statistic_C])
    return passed


def cramer_von_mises(statistic: float) -> float:
    """Upper tail of ∫ B² of a Brownian bridge B (Anderson and Darling 1952, eq. 4.35)."""
    if statistic <= 0:
        return 1.0
    k = np.arange(12)
    u = (4 * k + 1) ** 2 / (16 * statistic)
    weight = special.gamma(k + 0.5) / special.gamma(k + 1) * np.sqrt(4 * k + 1) / (math.pi**1.5 * math.sqrt(statistic))
    return float(np.clip(1 - (weight * np.exp(-2 * u) * special.kve(0.25, u)).sum(), 0, 1))


def _autocovariance(trace_CS: Values) -> Values:
    """Autocovariances averaged over chains, up to the first pair of lags whose sum is not positive (Geyer 1992).

    Empty for fewer than 4 draws or no spread.
    """
    chains, draws = trace_CS.shape
    centred = trace_CS - trace_CS.mean(1, keepdims=True)
    if draws < 4 or not (centred**2).mean() > 0:
        return np.empty(0)
    found: list[float] = []
    for lag in range(0, draws - draws % 2, 2):
        pair = [(centred[:, k:] * centred[:, : draws - k]).sum() / (chains * draws) for k in (lag, lag + 1)]
        if sum(pair) <= 0:
            break
        found += pair
    return np.array(found)


def _of_mean(covariance_K: Values, draws: int) -> float:
    """Variance of the mean of so many draws: Σ_{|k| < n} (1 − |k|/n) c_k / n; c_0/n² at the least."""
    kept_K = covariance_K[:draws]
    weighted = (1 - np.arange(len(kept_K)) / draws) * kept_K
    return float(max(2 * weighted.sum() - kept_K[0], kept_K[0] / draws) / draws)

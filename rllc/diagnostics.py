"""What a set of chains says about itself: named numbers for the row of an estimate, and a verdict from them alone.

weights     d, how many weights move
stein       E[nβ δ·∇ℓ + γ ‖δ‖²]/d, δ = w − w*: 1 for an exact sampler, mean of 1/(1 − a/2) for SGLD
localised   share of γ in it: the rest is the loss's
away        √(E‖δ‖²/d), root mean square distance from w* of a weight; `moved` is √E‖δ‖²/‖w*‖
curvature   largest curvature found at w*; `stiff` is its a = ε (nβ h + γ)/2
bias_step   share of λ̂ due to the step size, at least; `bias_step_most` at most, as far as `curvature` reaches
bias_burn_in  relative bias because chains start at w*
accept      mean probability of accepting the moves as MALA would: hardly any in many dimensions, judged by nobody
rhat, ess   see `rllc.convergence`; `rhat_limit` is what chance alone allows
drift       last half minus first half (nats), with `drift_p`
settling    last half minus first tenth (nats), with `settling_p`, as far as no relaxation from w* explains it
geweke      Geweke's z of the chain where it is largest
stationary  share of chains that pass Heidelberger and Welch's test

Shapes: C chains, S kept draws.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rllc import bias, budget, convergence, intervals
from rllc.backends.contract import Trace
from rllc.samplers import schedule
from rllc.task import Sampler

RELAXATIONS = 3.0  # fewer relaxation times of γ than this in the kept draws: short
ALONE = 20.0  # the same of a single chain, whose error has to come from its own pieces
STEIN = 1.25  # a Stein ratio above this means a step-size bias of a quarter in the mean direction: suspect
AWAY = 1.25  # as much further from w* than γ alone would let the chains go: the loss pushes them away
STIFF, UNSTABLE = 1.0, 2.0  # ε p/2 of the stiffest direction: its share of λ̂ is doubled at 1, grows at each step from 2
RHAT, RHAT_P = 1.1, 1e-4  # the customary limit, unless so few draws go beyond theirs by chance more often than RHAT_P
RHAT_SLOW = 1.5  # where nothing bounds the relaxation time
STATIONARY = 0.5  # share of chains that pass Heidelberger and Welch's test: a single one fails by chance too often
NEGATIVE_P = 0.00135  # of a value so far below 0 by chance: that of three errors of a normal
DRIFT_P, DRIFT_SHARE = 0.001, 0.25  # two windows differ surely, and by a quarter of the value


@dataclass(frozen=True)
class Health:
    """ok, suspect, short or diverged, with a reason in a few words."""

    state: str
    reason: str = ""


def numbers(trace: Trace, excess_CS: NDArray[np.float64], sampler: Sampler, *, norm: float) -> dict[str, float]:
    """Everything that is kept beside a value; `excess_CS` are the kept draws, `norm` is ‖w*‖ of the part."""
    kept = slice(sampler.burn_in, None, sampler.every)
    along, away = float(trace.along_CS[:, kept].mean()), float(trace.away_CS[:, kept].mean())
    stein = (sampler.nbeta * along + sampler.gamma * away) / trace.size
    mean_curvature = along / away if away > 0 else 0.0
    drift, drift_p = convergence.change(excess_CS, 0.5, 0.5)
    settling, settling_p = _settling(excess_CS, excess_CS.mean() * bias.transient(sampler, mean_curvature))
    z_C, passed_C = convergence.geweke(excess_CS), convergence.stationary(excess_CS)
    stiffest = bias.precision(sampler, trace.curvature)
    return {
        "weights": float(trace.size),
        "stein": stein,
        "localised": sampler.gamma * away / (stein * trace.size) if stein > 0 else math.nan,
        "away": math.sqrt(away / trace.size),
        "moved": math.sqrt(away) / norm if norm > 0 else math.nan,
        "curvature": trace.curvature,
        "stiff": sampler.lr * stiffest / 2 if sampler.method == "sgld" else math.nan,
        "bias_step": bias.step(sampler, mean_curvature),
        "bias_step_most": bias.step(sampler, trace.curvature),
        "bias_burn_in": bias.burn_in(sampler, mean_curvature),
        "accept": _accepted(trace, sampler),
        "rhat": convergence.rhat(excess_CS),
        "rhat_limit": rhat_limit(sampler, len(excess_CS)),
        "ess": convergence.effective_draws(excess_CS),
        "drift": sampler.nbeta * drift,
        "drift_p": drift_p,
        "settling": sampler.nbeta * settling,
        "settling_p": settling_p,
        "geweke": float(z_C[np.argmax(abs(z_C))]) if len(z_C) else math.nan,
        "stationary": float(passed_C.mean()) if len(passed_C) else math.nan,
    }


def health(stats: dict[str, float], sampler: Sampler, *, value: float, error: float, chains: int) -> Health:
    """Judge an estimate by its `numbers` and the `freedom` of its error; no numbers where something is not finite.

    The first that holds counts: diverged; short of relaxation times of γ; suspect; short of chains for the budget.
    """
    if not stats:
        return Health("diverged", "a loss or a weight is not finite")
    span = sampler.draws * sampler.every
    relaxation = schedule.relaxation(sampler)
    if math.isfinite(relaxation) and span < (RELAXATIONS if chains > 1 else ALONE) * relaxation:
        return Health("short", f"{span} kept steps are {span / relaxation:.1f} relaxation times of γ")
    if doubt := next(_doubts(stats, value, error), ""):
        return Health("suspect", doubt)
    missed = budget.shortfall(sampler.budget, value, error, chains) if sampler.budget else ""
    return Health("short", missed) if missed else Health("ok")


def _doubts(stats: dict[str, float], value: float, error: float) -> Iterator[str]:
    """Say what is wrong with the numbers, the gravest first."""
    if stats["stiff"] >= UNSTABLE:
        yield f"step unstable: ε p/2 {stats['stiff']:.2f} in the stiffest direction"
    if stats["stein"] > STEIN:
        yield f"step too large: Stein ratio {stats['stein']:.2f}"
    if stats["stiff"] >= STIFF:
        yield f"step too large: ε p/2 {stats['stiff']:.2f} in the stiffest direction"
    if stats["localised"] * stats["stein"] > AWAY:
        yield f"the loss pushes the chains away: ‖w − w*‖² is {stats['localised'] * stats['stein']:.2f} d/γ"
    if stats["rhat"] > stats["rhat_limit"]:
        yield f"chains disagree: R-hat {stats['rhat']:.2f}"
    if stats["stationary"] < STATIONARY:
        yield f"only {stats['stationary']:.0%} of the chains are stationary"
    if value + error * intervals.quantile(stats["freedom"], 1 - 2 * NEGATIVE_P) < 0:
        yield "below 0 for sure: the checkpoint is no minimum of this loss"
    for name, what in (("drift", "from half to half"), ("settling", "from the first tenth to the last half")):
        if stats[f"{name}_p"] < DRIFT_P and abs(stats[name]) > DRIFT_SHARE * abs(value):
            yield f"the trace still drifts: {stats[name]:+.2g} nats {what}"


def rhat_limit(sampler: Sampler, chains: int) -> float:
    """Split R-hat that chains of one target exceed with probability RHAT_P, RHAT at the least.

    √(1 + τ/h · χ²(2C − 1)/(2C − 1)), h the draws of half a chain; τ = (1 + ρ²)/(1 − ρ²) is the autocorrelation time of
    the loss in the softest direction that SGLD can have, ρ = (1 − εγ/2)^every, and bounds that of every convex one.
    """
    rho = (1 - sampler.lr * sampler.gamma / 2) ** sampler.every
    if sampler.method != "sgld" or not abs(rho) < 1 or sampler.draws < 2:
        return RHAT_SLOW
    tau, freedom = (1 + rho**2) / (1 - rho**2), 2 * chains - 1
    chance = float(special.chdtri(freedom, RHAT_P)) / freedom
    return max(RHAT, math.sqrt(1 + tau / (sampler.draws // 2) * chance))


def _settling(excess_CS: NDArray[np.float64], missing_S: NDArray[np.float64]) -> tuple[float, float]:
    """Last half minus first tenth and its p-value, 0 and NaN if it lies between none and all of the expected rise.

    `missing_S` is what the draws lack in directions that relax as slowly as the trace tells; stiffer ones lack less.
    """
    raw, settled = (
        convergence.change(each_CS, convergence.FIRST, convergence.LAST)
        for each_CS in (excess_CS, excess_CS + missing_S)
    )
    return min(raw, settled, key=lambda found: abs(found[0])) if raw[0] * settled[0] > 0 else (0.0, math.nan)


def _accepted(trace: Trace, sampler: Sampler) -> float:
    """Mean of min(1, α) over the moves between kept draws; NaN where the sampler has none."""
    if trace.accept_CS is None or sampler.steps < 2:
        return math.nan
    return float(np.exp(np.minimum(trace.accept_CS[:, max(sampler.burn_in, 1) :], 0)).mean())

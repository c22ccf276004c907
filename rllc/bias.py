"""What all chains have in common and no spread between them shows: the bias of the step size and of the start at w*.

On a quadratic loss SGLD moves apart in every direction i, of precision p_i = nβ h_i + γ and a_i = ε p_i/2: its share
λ̂_i of the estimate comes out as 1/(1 − a_i/2) of what it should be in an endless chain, and at step t as 1 − (1 −
a_i)^{2t} of that. What a trace tells of the p_i is their mean weighted with the variances, p̄ = γ + nβ E[δ·∇ℓ]/E‖δ‖²,
δ = w − w*. Large p_i weigh more in λ̂ than in p̄, so p̄ gives a lower bound of the step bias, and of the burn-in bias a
size that is seldom exceeded. The curvature of the stiffest direction bounds the step bias from above. The noise of
minibatches, which widens the chains by about ε nβ² Var(∇ℓ_batch)/4, is not in it.
"""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rllc import intervals
from rllc.samplers.schedule import rate
from rllc.task import Sampler

if TYPE_CHECKING:
    from rllc.task import Estimate

LEAST_LEFT = 0.5  # of the value after burn-in bias: of shorter chains nothing can be said


def precision(sampler: Sampler, curvature: float) -> float:
    """p = γ + nβ h of a direction of curvature h (nats per squared weight), γ where h is negative."""
    return sampler.gamma + sampler.nbeta * max(curvature, 0.0)


def step(sampler: Sampler, curvature: float) -> float:
    """Share a/2 = ε p/4 of λ̂ that is there because of the step size, in directions of one curvature; SGLD only.

    λ̂ = λ/(1 − a/2), so λ = λ̂ (1 − a/2) (stationary variance of SGLD on a quadratic, 1/(p (1 − a/2))).
    """
    return sampler.lr * precision(sampler, curvature) / 4 if sampler.method == "sgld" else math.nan


def transient(sampler: Sampler, curvature: float) -> NDArray[np.float64]:
    """What each kept draw lacks of its stationary share, (S,), because chains start at w*: ∏_{s<t} (1 − ε_s p/2)²."""
    rate_S = np.broadcast_to(rate(sampler, np.arange(sampler.steps)), sampler.steps)
    left_S = np.cumprod((1 - rate_S * precision(sampler, curvature) / 2) ** 2)
    return np.concatenate([[1.0], left_S[:-1]])[sampler.burn_in :: sampler.every]


def burn_in(sampler: Sampler, curvature: float) -> float:
    """Relative bias −mean of `transient` over the kept draws; −1 where nothing holds the chain back; SGLD only."""
    return -float(transient(sampler, curvature).mean()) if sampler.method == "sgld" else math.nan


def correction(value: float, stats: dict[str, float]) -> float:
    """Factor that takes both biases out of λ̂: (1 − step)/(1 + burn-in); 1 for a negative value.

    What is negative comes from a slope at w*, whose part of λ̂ has no step bias. Source of the shares is
    `diagnostics.numbers`.
    """
    return (1 - stats["bias_step"]) / max(1 + stats["bias_burn_in"], LEAST_LEFT) if value > 0 else 1.0


def measured(full: "Estimate", half: "Estimate") -> tuple[float, float, float]:
    """Step bias of `full` from a second estimate at half its step size: bias, standard error, degrees of freedom.

    2 (λ̂(ε) − λ̂(ε/2)), in nats; λ̂(ε) less this is the extrapolation to ε = 0 that is exact to first order in ε
    (Richardson). To leave the burn-in bias out, give `half` twice the steps: burn_in, every, or draws.
    """
    options, other = full.task.sampler, half.task.sampler
    assert options is not None
    assert other is not None
    assert math.isclose(options.lr, 2 * other.lr)
    errors, freedoms = [full.error, half.error], [full.freedom, half.freedom]
    return 2 * (full.value - half.value), 2 * math.hypot(*errors), intervals.freedom(errors, freedoms)

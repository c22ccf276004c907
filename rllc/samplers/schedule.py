"""The step size over time, and how long a chain takes."""

import math
from typing import Any

from rllc.task import Sampler


def rate(sampler: Sampler, t: Any) -> Any:
    """Step size ε of step t: lr · min(1, (t + 1)/warmup), or lr throughout when warmup is 0.

    t may be a traced integer of jax; the minimum is taken in integers, so that ε is exactly lr after the warm-up.
    """
    if sampler.warmup == 0:
        return sampler.lr
    count = (t + 1 + sampler.warmup - abs(t + 1 - sampler.warmup)) // 2
    return sampler.lr * (count / sampler.warmup)


def relaxation(sampler: Sampler) -> float:
    """Steps in which a direction that γ alone holds comes back to 1/e, infinite at ε γ = 0.

    2/(εγ) for sgld; eps times that for rmsprop, whose gradients there are small against eps; for sgnht, a damped
    oscillator in steps of √ε, 1/(√ε s) with s = A/2 − √(max(A²/4 − γ, 0)).
    """
    if sampler.lr * sampler.gamma == 0:
        return math.inf
    if sampler.method == "sgnht":
        half = sampler.friction / 2
        slowest = half - math.sqrt(max(half**2 - sampler.gamma, 0.0))
        return 1 / (math.sqrt(sampler.lr) * slowest) if slowest > 0 else math.inf
    return (sampler.eps if sampler.method == "rmsprop" else 1.0) * 2 / (sampler.lr * sampler.gamma)

"""Stochastic-gradient Nosé–Hoover thermostat (Ding et al., NeurIPS 2014): underdamped, its friction adapts to noise.

    dw = p dt,   dp = −∇U dt − (A + ζ) p dt + √(2A) dW,   dζ = (‖p‖²/d − 1) dt,      A = `friction`, ζ per chain

in steps of h = √ε, which SGLD moves by too (a momentum drawn afresh at each step would be SGLD), stable where it is:

    p ← p − h ∇U(w),   w ← w + h/2 · p,   p' = e^{−(A + ζ) h} p + √(1 − e^{−2Ah}) · ξ,   w ← w + h/2 · p',
    ζ ← ζ + h ((‖p‖² + ‖p'‖²)/2d − 1),   p ← p'

This order (BAOAB: Leimkuhler and Matthews 2013) has the exact variance of w, p and p' on a quadratic at any stable ε.
Where noise of the gradient heats p, ζ grows until the mean heat of p and p' is 1 again, which takes some A/h steps.
Chains start at rest, and ζ stays 0 until they are warm, t h A > 5: it would take the start for cooling, and be long in
forgetting it. A = 2√γ damps the localisation critically.
"""

import math
from typing import Any

from rllc.samplers.schedule import rate
from rllc.task import Sampler

WARM = 5.0  # times 1/A: with 2 the singular tests are off by 0.7 %, with 5 or 10 by 0.3 %


def start(w_CD: Any) -> tuple[Any, ...]:
    """The state: the weights, their momenta p, (C, D), and the excess friction ζ, (C, 1)."""
    return w_CD, 0 * w_CD, 0 * w_CD[:, :1]


def step(
    state: tuple[Any, ...], grad_CD: Any, away_CD: Any, xi_CD: Any, *, sampler: Sampler, t: Any
) -> tuple[Any, ...]:
    """The state after step t."""
    w_CD, p_CD, excess_C1 = state
    h = rate(sampler, t) ** 0.5
    keep = math.e ** (-sampler.friction * h)
    p_CD = p_CD - h * (sampler.nbeta * grad_CD + sampler.gamma * away_CD)
    w_CD = w_CD + h / 2 * p_CD
    after_CD = keep * math.e ** (-h * excess_C1) * p_CD + (1 - keep * keep) ** 0.5 * xi_CD
    heat_C1 = (p_CD * p_CD + after_CD * after_CD).mean(1)[:, None] / 2
    warm = t * h * sampler.friction > WARM
    return w_CD + h / 2 * after_CD, after_CD, excess_C1 + warm * h * (heat_C1 - 1)

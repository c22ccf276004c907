"""Stochastic-gradient Langevin dynamics (Welling and Teh, ICML 2011; localised: Lau et al., arXiv 2308.12108).

    w ← w − ε/2 · (nβ ∇ℓ_batch(w) + γ (w − w*)) + √ε · ξ,      ξ ~ N(0, 1)

in the half-step convention of this literature (blackjax and posteriors define a step twice as large). On a quadratic
the variance in a direction of curvature h is inflated by 1/(1 − a/2), a = ε (nβ h + γ)/2; stable for a < 2.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rllc.samplers.schedule import rate
from rllc.task import Sampler

Values = NDArray[np.float64]


def start(w_CD: Any) -> tuple[Any, ...]:
    """The state: the weights alone."""
    return (w_CD,)


def step(
    state: tuple[Any, ...], grad_CD: Any, away_CD: Any, xi_CD: Any, *, sampler: Sampler, t: Any
) -> tuple[Any, ...]:
    """The state after step t."""
    (w_CD,) = state
    lr = rate(sampler, t)
    return (w_CD - lr / 2 * (sampler.nbeta * grad_CD + sampler.gamma * away_CD) + lr**0.5 * xi_CD,)


def log_acceptance(
    excess_CS: Values, along_CS: Values, away_CS: Values, square_CS: Values, work_CS: Values, *, sampler: Sampler
) -> Values:
    """Logarithm of the Metropolis–Hastings ratio of the move that led to w_t, (C, S); 0 at w* itself.

    log α = U(w) − U(w') + ½ (w' − w)·(∇U + ∇U') − ε/8 (‖∇U'‖² − ‖∇U‖²) (Roberts and Tweedie 1996), where the γ terms of
    the first two cancel. Either end is taken on its own step's minibatch, as devinterp 1 did, so noise of the gradient
    lowers the ratio: it is that of the exact MALA only where all minibatches are the same.

    Args:
        excess_CS: ℓ_batch(w_t) − ℓ_batch(w*).
        along_CS: (w_t − w*)·∇ℓ_batch(w_t).
        away_CS: ‖w_t − w*‖².
        square_CS: ‖∇ℓ_batch(w_t)‖².
        work_CS: ½ (w_t − w_{t−1})·(∇ℓ_batch(w_t) + ∇ℓ_batch(w_{t−1})).
        sampler: its ε, nβ and γ.
    """
    lr = rate(sampler, np.arange(excess_CS.shape[1] - 1))
    log_CS = np.zeros_like(excess_CS)
    with np.errstate(over="ignore", invalid="ignore"):  # a chain that diverged has none, which `health` tells
        push_CS = 2 * sampler.nbeta * sampler.gamma * along_CS + sampler.gamma**2 * away_CS
        force_CS = sampler.nbeta**2 * square_CS + push_CS
        log_CS[:, 1:] = sampler.nbeta * (work_CS[:, 1:] - np.diff(excess_CS)) - lr / 8 * np.diff(force_CS)
    return log_CS

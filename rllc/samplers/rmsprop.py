"""SGLD preconditioned by RMSprop (pSGLD: Li et al., AAAI 2016, arXiv 1512.07666), as devinterp has it.

    V ← α V + (1 − α) ∇ℓ_batch(w)²,      G = 1/(√V + eps)
    w ← w − ε/2 · G (nβ ∇ℓ_batch(w) + γ (w − w*)) + √(ε G) · ξ,      ξ ~ N(0, 1)

V starts at 0 and stays as it is after `adapt` steps (adapt 0: never).
"""

import math
from typing import Any

from rllc.samplers.schedule import rate
from rllc.task import Sampler


def start(w_CD: Any) -> tuple[Any, ...]:
    """The state: the weights and the mean square V of the gradient."""
    return w_CD, 0 * w_CD


def step(
    state: tuple[Any, ...], grad_CD: Any, away_CD: Any, xi_CD: Any, *, sampler: Sampler, t: Any
) -> tuple[Any, ...]:
    """The state after step t."""
    w_CD, square_CD = state
    lr = rate(sampler, t)
    fresh = (1 - sampler.alpha) * (t < (sampler.adapt or math.inf))
    square_CD = square_CD + fresh * (grad_CD * grad_CD - square_CD)
    g_CD = 1 / (square_CD**0.5 + sampler.eps)
    drift_CD = g_CD * (sampler.nbeta * grad_CD + sampler.gamma * away_CD)
    return w_CD - lr / 2 * drift_CD + (lr * g_CD) ** 0.5 * xi_CD, square_CD

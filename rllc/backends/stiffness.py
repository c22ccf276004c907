"""The largest curvature of a loss at w*, from a few gradients: no backend needs a second derivative for it.

Shapes: D weights of the part, K directions of a Krylov space.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

DIRECTIONS = 3  # of the Krylov space: with the gradient they start from four evaluations, 2 % of 200 steps
EXHAUSTED = 1e-4  # a direction this much shorter once the space is taken out of it is rounding


def largest(gradient: Callable[[Array], Array], start_D: Array, lr: float) -> float:
    """Largest curvature of ℓ found at w* = `start_D` (nats per squared weight); `gradient` gives ∇ℓ (D) at any w.

    The largest Ritz value of the Hessian in the Krylov space of the gradient one kick √ε of noise away from w*; the
    products are differences of gradients over another √ε. Found from below; NaN where ε is 0 or a gradient is not
    finite. (Saad, Numerical Methods for Large Eigenvalue Problems, 2011, §4.3 and §6.)
    """
    if lr == 0:
        return math.nan
    kick = np.asarray(math.sqrt(lr), start_D.dtype)
    xi_D = np.random.default_rng(0).standard_normal(len(start_D), np.float32)
    base_D = start_D + kick * xi_D.astype(start_D.dtype)
    still_D = ahead_D = gradient(base_D)
    if not np.isfinite(still_D).all():
        return math.nan
    basis_KD, bent_KD = np.empty((2, 0, len(start_D)), start_D.dtype)
    for _ in range(DIRECTIONS):
        rest_D = ahead_D - basis_KD.T @ (basis_KD @ ahead_D)
        if np.linalg.norm(rest_D) <= EXHAUSTED * np.linalg.norm(ahead_D):
            break
        basis_KD = np.concatenate([basis_KD, rest_D[None] / np.linalg.norm(rest_D)])
        ahead_D = (gradient(base_D + kick * basis_KD[-1]) - still_D) / kick
        bent_KD = np.concatenate([bent_KD, ahead_D[None]])
    ritz_KK = (basis_KD @ bent_KD.T).astype(np.float64)
    return float(max(np.linalg.eigvalsh(ritz_KK), default=0.0)) if np.isfinite(ritz_KK).all() else math.nan

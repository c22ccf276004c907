"""Gradients of a part's loss at several points at once, as flat vectors.

Shapes: C points, D weights of the part, B rows of each.
"""

import torch
from torch import Tensor

from rllc.backends.contract import Potential

LENGTH = 1e-2  # of the steps from w* whose gradients make a product with the Hessian: the best there is in float32


def flat(potential: Potential) -> Tensor:
    """w* of the part as one vector, (D)."""
    return torch.cat([array.reshape(-1) for array in potential.start])


def each(potential: Potential, w_CD: Tensor, rows_CB: Tensor) -> Tensor:
    """Gradient of the mean loss over its own rows at each point, (C, D)."""
    w_CD = w_CD.detach().requires_grad_()
    pieces = torch.split(w_CD, [array.numel() for array in potential.start], dim=1)
    live = [piece.view(len(w_CD), *array.shape) for piece, array in zip(pieces, potential.start, strict=True)]
    (gradient_CD,) = torch.autograd.grad(potential.losses(live, rows_CB).mean(1).sum(), w_CD)
    return gradient_CD


@torch.no_grad()
def bend(potential: Potential, v_CD: Tensor, rows_CB: Tensor) -> Tensor:
    """Hessian of the mean loss over its own rows at w* times each vector, (C, D).

    H v = (∇ℓ(w* + s v) − ∇ℓ(w* − s v)) / 2s with s‖v‖ = LENGTH: two gradients and no second derivative, which neither
    the chunked loss nor a low-rank last layer has. On trained heads it is right to 2e-4 in float32, 2e-5 in float64.
    """
    start_D, norm_C1 = flat(potential), v_CD.norm(dim=1, keepdim=True).clamp(min=torch.finfo(v_CD.dtype).tiny)
    step_CD = v_CD * (LENGTH / norm_C1)
    with torch.enable_grad():
        ahead_CD, behind_CD = (each(potential, start_D + side * step_CD, rows_CB) for side in (1, -1))
    bent_CD: Tensor = (ahead_CD - behind_CD) * (norm_C1 / (2 * LENGTH))
    return bent_CD

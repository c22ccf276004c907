"""Largest curvature of a potential, and its trace: what a chain feels of a loss, whatever its learning coefficient.

Shapes: C chains or probes, D weights of the part, B rows.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from rllc.backends.contract import Potential

ROUNDS = 30  # of the power iteration
PROBES = 16  # of the trace: exact where the Hessian is diagonal


def largest(potential: Potential, w_CD: Tensor) -> float:
    """Largest |eigenvalue| of the Hessian over C points, by power iteration; from below, 0 where there is none."""
    multiply = _hessian(potential, w_CD)
    v_CD = torch.randn(w_CD.shape, generator=torch.Generator().manual_seed(0), dtype=w_CD.dtype)
    for _ in range(ROUNDS):
        v_CD = multiply(torch.nn.functional.normalize(v_CD))
    return float(v_CD.norm(dim=1).max())


def trace(potential: Potential) -> float:
    """Tr H at w*, the mean of zᵀHz over random signs z (Hutchinson 1989)."""
    start_D = torch.cat([array.reshape(-1) for array in potential.start])
    draws = torch.randint(0, 2, (PROBES, len(start_D)), generator=torch.Generator().manual_seed(0))
    sign_CD = (2 * draws - 1).to(start_D.dtype)
    return float((sign_CD * _hessian(potential, start_D.repeat(PROBES, 1))(sign_CD)).sum(1).mean())


def _hessian(potential: Potential, w_CD: Tensor) -> Callable[[Tensor], Tensor]:
    """Multiplication by the Hessian of each chain's loss."""
    w_CD = w_CD.detach().requires_grad_()
    pieces = torch.split(w_CD, [array.numel() for array in potential.start], dim=1)
    live = [piece.view(len(w_CD), *array.shape) for piece, array in zip(pieces, potential.start, strict=True)]
    loss_CB = potential.losses(live, torch.zeros(len(w_CD), 1, dtype=torch.int64))
    (grad_CD,) = torch.autograd.grad(loss_CB.sum(), w_CD, create_graph=True)
    return lambda v_CD: torch.autograd.grad(grad_CD, w_CD, v_CD, retain_graph=True)[0]

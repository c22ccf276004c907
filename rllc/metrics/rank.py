"""The rank of the Hessian of a part's loss at w*: how many curvatures lie above a threshold.

Shapes: P probes, D weights of the part, R rows, B of them at once, K Lanczos steps.
"""

import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rllc.metrics import hessian, scored
from rllc.models import beside, gradients
from rllc.models.pool import Pool
from rllc.models.restriction import restrict
from rllc.task import Estimate, Task

PROBES = 4  # vectors v
ROWS = 32  # on which the Hessian stands: with fewer its spectrum is broadened by the rows' own noise
STEPS = 16  # Lanczos steps
THRESHOLD = 0.03  # nats per squared weight
OTHERS = (0.01, 0.1)  # thresholds whose ranks are in stats
EXHAUSTED = 1e-10  # a direction this much shorter than the largest product is rounding


def measure(task: Task, pool: Pool) -> Estimate:
    """The number of eigenvalues of H with |λ| > THRESHOLD (a count of directions), by stochastic Lanczos quadrature.

    D · mean over probes v of Σ_k (first component of Ritz vector k)² [|θ_k| > THRESHOLD], θ_k the Ritz values of
    STEPS Lanczos steps from v with full reorthogonalisation (Ubaru, Chen, Saad 2017; Ghorbani et al. 2019). A rank is
    no mean over rows: H is that of ROWS rows evenly spaced over the pool, and the standard error is that of the probes
    about the rank of this H. `stats` has the ranks above other thresholds, and the largest |θ|. Cost: two gradients on
    STEPS × PROBES × ROWS rows.
    """
    began, potential = time.perf_counter(), restrict(beside.several(pool), task.part)
    start_D = gradients.flat(potential)
    spread = torch.arange(ROWS, device=start_D.device) * len(pool.tokens_NL) // ROWS
    blocks = spread.view(-1, beside.CHAINS // PROBES, beside.BATCH)

    def multiply(v_PD: Tensor) -> Tensor:
        """The Hessian on all rows; each vector stands at several points at once, with some of the rows at each."""
        apart_CD = v_PD.to(start_D).repeat_interleave(blocks.shape[1], 0)
        pieces = [gradients.bend(potential, apart_CD, rows.repeat(PROBES, 1)) for rows in blocks]
        return torch.stack(pieces).view(len(blocks), PROBES, -1, len(start_D)).mean((0, 2), dtype=torch.float64)

    start_PD = hessian.signs(task, PROBES, len(start_D)).to(start_D.device)
    value_PK, share_PK = quadrature(lanczos(multiply, start_PD, min(STEPS, len(start_D))))
    potential.close()
    above = {at: len(start_D) * (share_PK * (abs(value_PK) > at)).sum(1) for at in (THRESHOLD, *OTHERS)}
    stats = {f"above_{at:g}": float(above[at].mean()) for at in OTHERS}
    stats |= {"weights": float(len(start_D)), "largest": float(abs(value_PK).max())}
    return scored.probes(task, above[THRESHOLD], began=began, stats=stats)


def lanczos(multiply: Callable[[Tensor], Tensor], start_PD: Tensor, steps: int) -> NDArray[np.float64]:
    """The tridiagonal matrices (P, K, K) of the Krylov spaces of P vectors, each reorthogonalised twice.

    A space that is exhausted goes on with zeros, which have no share in the quadrature.
    """
    basis_PKD = torch.zeros(len(start_PD), steps, start_PD.shape[1], dtype=start_PD.dtype, device=start_PD.device)
    inner_PKK = torch.zeros(len(start_PD), steps, steps, dtype=start_PD.dtype)
    next_PD, length_P = start_PD, start_PD.norm(dim=1)
    scale = torch.zeros_like(length_P)
    for k in range(steps):
        alive = length_P > EXHAUSTED * scale
        basis_PKD[:, k] = torch.where(alive[:, None], next_PD / length_P.clamp(min=1e-300)[:, None], 0.0)
        image_PD = multiply(basis_PKD[:, k])
        scale = torch.maximum(scale, image_PD.norm(dim=1))
        inner_PKK[:, k, k] = (basis_PKD[:, k] * image_PD).sum(1).cpu()
        for _ in range(2):
            seen_PK = torch.einsum("pkd,pd->pk", basis_PKD, image_PD)
            image_PD = image_PD - torch.einsum("pk,pkd->pd", seen_PK, basis_PKD)
        next_PD, length_P = image_PD, image_PD.norm(dim=1)
        if k + 1 < steps:
            beside_P = torch.where(length_P > EXHAUSTED * scale, length_P, 0.0).cpu()
            inner_PKK[:, k, k + 1] = inner_PKK[:, k + 1, k] = beside_P
    return inner_PKK.numpy()


def quadrature(inner_PKK: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of Gauss's quadrature from tridiagonal matrices: Ritz values, squared first components."""
    value_PK, vector_PKK = np.linalg.eigh(inner_PKK)
    return value_PK, vector_PKK[:, 0] ** 2

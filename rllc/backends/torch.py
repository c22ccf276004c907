"""SGLD in PyTorch: all chains of a task in one batch, on the part's own arrays only."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rllc.backends.contract import Potential, Trace
from rllc.task import Sampler


def run(
    potential: Potential,
    sampler: Sampler,
    rows_CSB: NDArray[np.int64],
    *,
    noise_seeds: list[int],
    noise: float = 1.0,
) -> Trace:
    """Run the chains; minibatches are given, the Langevin noise comes from one generator per chain.

    w ← w − ε/2 · (nβ ∇ℓ_batch(w) + γ (w − w*)) + noise · √ε · ξ,   ξ ~ N(0, 1)

    (the half-step convention of Lau et al. 2023 and devinterp). The loss of a step is taken before its update, so
    step 0 is w* itself. `noise` other than 1 exists for tests.
    """
    start = torch.cat([array.reshape(-1) for array in potential.start])
    chains, steps, _ = rows_CSB.shape
    state_CD = start.repeat(chains, 1)
    views = _views(state_CD, potential.start)
    rows = torch.from_numpy(rows_CSB).to(start.device)
    generators = [torch.Generator(start.device).manual_seed(seed) for seed in noise_seeds]
    xi_CD = torch.empty_like(state_CD)
    shape = (chains, steps)
    excess, reference, along, away = (torch.empty(shape, dtype=torch.float64, device=start.device) for _ in range(4))
    for step in range(steps):
        grad_CD = _loss_and_gradient(potential, views, rows[:, step], excess[:, step], reference[:, step])
        away_CD = state_CD - start
        along[:, step] = (away_CD * grad_CD).sum(1, dtype=torch.float64)
        away[:, step] = away_CD.square().sum(1, dtype=torch.float64)
        drift_CD = grad_CD.mul_(sampler.nbeta).add_(away_CD, alpha=sampler.gamma)
        state_CD.sub_(drift_CD, alpha=sampler.lr / 2)
        for xi_D, generator in zip(xi_CD, generators, strict=True):
            xi_D.normal_(generator=generator)
        state_CD.add_(xi_CD, alpha=noise * math.sqrt(sampler.lr))
    kept = [array.cpu().numpy() for array in (excess, reference, along, away, state_CD)]
    return Trace(kept[0], kept[1], kept[2], kept[3], kept[4], size=len(start))


def _views(state_CD: Tensor, shapes: list[Tensor]) -> list[Tensor]:
    """The arrays of the part as views of the flat state, each with a leading chain axis."""
    pieces = torch.split(state_CD, [array.numel() for array in shapes], dim=1)
    return [piece.view(len(state_CD), *array.shape) for piece, array in zip(pieces, shapes, strict=True)]


def _loss_and_gradient(
    potential: Potential, views: list[Tensor], rows_CB: Tensor, excess_C: Tensor, reference_C: Tensor
) -> Tensor:
    """Fill in the losses of this step and return ∇ℓ_batch of every chain, shape (C, D)."""
    live = [view.detach().requires_grad_() for view in views]
    loss_CB = potential.losses(live, rows_CB)
    with torch.no_grad():
        reference_CB = potential.reference(rows_CB)
        excess_C.copy_((loss_CB - reference_CB).mean(1, dtype=torch.float64))
        reference_C.copy_(reference_CB.mean(1, dtype=torch.float64))
    grads = torch.autograd.grad(loss_CB.mean(1).sum(), live)
    return torch.cat([grad.flatten(1) for grad in grads], 1)

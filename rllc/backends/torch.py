"""The chains in PyTorch: all chains of a task in one batch, on the part's own arrays only.

Shapes: C chains, S steps, B rows of a minibatch, D weights of the part.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rllc import samplers
from rllc.backends import stiffness
from rllc.backends.contract import Potential, Trace
from rllc.samplers import sgld
from rllc.samplers.schedule import rate
from rllc.task import Sampler


def run(
    potential: Potential,
    sampler: Sampler,
    rows_CSB: NDArray[np.int64],
    *,
    noise_seeds: list[int],
    noise: float = 1.0,
) -> Trace:
    """Run the chains; minibatches are given, the noise comes from one generator per chain.

    The update is that of `samplers.named(sampler.method)`. The loss of a step is taken before its update, so step 0 is
    w* itself. `noise` is the standard deviation of ξ; other than 1 it exists for tests.
    """
    start_D = _flat(potential)
    chains, steps, _ = rows_CSB.shape
    rows = torch.from_numpy(rows_CSB).to(start_D.device)
    method = samplers.named(sampler.method)
    step = _sgld if sampler.method == "sgld" else method.step
    state = method.start(start_D.repeat(chains, 1))
    generators = [torch.Generator(start_D.device).manual_seed(seed) for seed in noise_seeds]
    xi_CD, last_away_CD, last_grad_CD = (torch.zeros_like(state[0]) for _ in range(3))
    seen = torch.zeros(6, chains, steps, dtype=torch.float64, device=start_D.device)
    for t in range(steps):
        loss_CB, grad_CD = _loss_and_gradient(potential, state[0], rows[:, t])
        with torch.no_grad():
            reference_CB = potential.reference(rows[:, t])
        away_CD = state[0] - start_D
        work_C = _dot(away_CD - last_away_CD, last_grad_CD.add_(grad_CD)) / 2
        means = [loss_CB - reference_CB, reference_CB]
        dots = [_dot(away_CD, grad_CD), _dot(away_CD, away_CD), _dot(grad_CD, grad_CD), work_C]
        seen[:, :, t] = torch.stack([*(array.mean(1, dtype=torch.float64) for array in means), *dots])
        last_away_CD, last_grad_CD = away_CD, grad_CD
        for xi_D, generator in zip(xi_CD, generators, strict=True):
            xi_D.normal_(std=noise, generator=generator)
        state = step(state, grad_CD, away_CD, xi_CD, sampler=sampler, t=t)

    def gradient(w_D: NDArray[Any]) -> NDArray[Any]:
        w_CD = torch.from_numpy(w_D).to(start_D).repeat(chains, 1)
        found: NDArray[Any] = _loss_and_gradient(potential, w_CD, rows[:, 0])[1].mean(0).cpu().numpy()
        return found

    curvature = stiffness.largest(gradient, start_D.cpu().numpy(), sampler.lr)
    return _trace(seen, state[0], sampler, curvature)


def _sgld(
    state: tuple[Tensor, ...], grad_CD: Tensor, away_CD: Tensor, xi_CD: Tensor, *, sampler: Sampler, t: int
) -> tuple[Tensor, ...]:
    """`samplers.sgld.step` in place: fused products round once, and recorded numbers were made with them."""
    lr = rate(sampler, t)
    drift_CD = torch.add(sampler.nbeta * grad_CD, away_CD, alpha=sampler.gamma)
    state[0].sub_(drift_CD, alpha=lr / 2).add_(xi_CD, alpha=math.sqrt(lr))
    return state


def _trace(seen: Tensor, w_CD: Tensor, sampler: Sampler, curvature: float) -> Trace:
    excess_CS, reference_CS, along_CS, away_CS, square_CS, work_CS = seen.cpu().numpy()
    accept_CS = None
    if sampler.method == "sgld":
        accept_CS = sgld.log_acceptance(excess_CS, along_CS, away_CS, square_CS, work_CS, sampler=sampler)
    return Trace(
        excess_CS, reference_CS, along_CS, away_CS, end_CD=w_CD.cpu().numpy(), size=w_CD.shape[1],
        accept_CS=accept_CS, curvature=curvature,
    )  # fmt: skip


def _flat(potential: Potential) -> Tensor:
    return torch.cat([array.reshape(-1) for array in potential.start])


def _dot(a_CD: Tensor, b_CD: Tensor) -> Tensor:
    return (a_CD * b_CD).sum(1, dtype=torch.float64)


def _views(w_CD: Tensor, arrays: list[Tensor]) -> list[Tensor]:
    """The arrays of the part as views of the flat weights, each with a leading chain axis."""
    pieces = torch.split(w_CD, [array.numel() for array in arrays], dim=1)
    return [piece.view(len(w_CD), *array.shape) for piece, array in zip(pieces, arrays, strict=True)]


def _loss_and_gradient(potential: Potential, w_CD: Tensor, rows_CB: Tensor) -> tuple[Tensor, Tensor]:
    """Loss of each row, (C, B), and ∇ℓ_batch of every chain, (C, D)."""
    live = [view.detach().requires_grad_() for view in _views(w_CD, potential.start)]
    loss_CB = potential.losses(live, rows_CB)
    grads = torch.autograd.grad(loss_CB.mean(1).sum(), live, materialize_grads=True)  # some may be without influence
    return loss_CB.detach(), torch.cat([grad.flatten(1) for grad in grads], 1)

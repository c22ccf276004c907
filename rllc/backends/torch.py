"""The chains in PyTorch: all chains of a task in one batch, on the part's own arrays only.

Shapes: C chains, S steps, B rows of a minibatch, D weights of the part.
"""

import math
from collections.abc import Callable, Sequence
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

Losses = Callable[[list[list[Tensor]], Tensor], list[Tensor]]
"""The losses of each row, (C, B), of several potentials whose chains are at the given arrays."""


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
    return together([potential], _alone(potential), sampler, rows_CSB, noise_seeds=[noise_seeds], noise=noise)[0]


def together(
    potentials: Sequence[Potential],
    losses: Losses,
    sampler: Sampler,
    rows_CSB: NDArray[np.int64],
    *,
    noise_seeds: Sequence[list[int]],
    noise: float = 1.0,
) -> list[Trace]:
    """Run the chains of several potentials on the same minibatches, step by step, each as `run` does.

    `losses` finds the losses of all at once, to the bit those that each gives alone: then so are the traces.
    """
    device = potentials[0].start[0].device
    rows_SCB = torch.from_numpy(rows_CSB).to(device).unbind(1)
    shape = rows_CSB.shape[:2]
    walks = [
        _Walk(potential, sampler, shape, seeds, noise) for potential, seeds in zip(potentials, noise_seeds, strict=True)
    ]
    for t, rows_CB in enumerate(rows_SCB):
        live = [walk.live() for walk in walks]
        for walk, found in zip(walks, _losses_and_gradients(losses, live, rows_CB), strict=True):
            walk.step(t, rows_CB, *found)
    return [walk.trace(rows_SCB[0]) for walk in walks]


class _Walk:
    """Where the chains of one potential are, and what was seen of them."""

    def __init__(
        self, potential: Potential, sampler: Sampler, shape: tuple[int, int], seeds: list[int], noise: float
    ) -> None:
        self._potential, self._sampler, self._noise = potential, sampler, noise
        self._start_D = start_D = torch.cat([array.reshape(-1) for array in potential.start])
        method = samplers.named(sampler.method)
        self._update = _sgld if sampler.method == "sgld" else method.step
        self._state = method.start(start_D.repeat(shape[0], 1))
        self._generators = [torch.Generator(start_D.device).manual_seed(seed) for seed in seeds]
        self._xi_CD, self._last_away_CD, self._last_grad_CD = (torch.zeros_like(self._state[0]) for _ in range(3))
        self._seen = torch.zeros(6, *shape, dtype=torch.float64, device=start_D.device)

    def live(self) -> list[Tensor]:
        """The arrays of the part where the chains are, each with a leading chain axis."""
        return _views(self._state[0], self._potential.start)

    def step(self, t: int, rows_CB: Tensor, loss_CB: Tensor, grad_CD: Tensor) -> None:
        """See the loss and its gradient where the chains are, and go on."""
        with torch.no_grad():
            reference_CB = self._potential.reference(rows_CB)
        away_CD = self._state[0] - self._start_D
        work_C = _dot(away_CD - self._last_away_CD, self._last_grad_CD.add_(grad_CD)) / 2
        means = [loss_CB - reference_CB, reference_CB]
        dots = [_dot(away_CD, grad_CD), _dot(away_CD, away_CD), _dot(grad_CD, grad_CD), work_C]
        self._seen[:, :, t] = torch.stack([*(array.mean(1, dtype=torch.float64) for array in means), *dots])
        self._last_away_CD, self._last_grad_CD = away_CD, grad_CD
        for xi_D, generator in zip(self._xi_CD, self._generators, strict=True):
            xi_D.normal_(std=self._noise, generator=generator)
        self._state = self._update(self._state, grad_CD, away_CD, self._xi_CD, sampler=self._sampler, t=t)

    def trace(self, rows_CB: Tensor) -> Trace:
        """What was seen, with the largest curvature of the loss of some rows at w*."""
        potential = self._potential

        def gradient(w_D: NDArray[Any]) -> NDArray[Any]:
            w_CD = torch.from_numpy(w_D).to(self._start_D).repeat(len(rows_CB), 1)
            ((_, grad_CD),) = _losses_and_gradients(_alone(potential), [_views(w_CD, potential.start)], rows_CB)
            found: NDArray[Any] = grad_CD.mean(0).cpu().numpy()
            return found

        curvature = stiffness.largest(gradient, self._start_D.cpu().numpy(), self._sampler.lr)
        excess_CS, reference_CS, along_CS, away_CS, square_CS, work_CS = self._seen.cpu().numpy()
        accept_CS = None
        if self._sampler.method == "sgld":
            accept_CS = sgld.log_acceptance(excess_CS, along_CS, away_CS, square_CS, work_CS, sampler=self._sampler)
        return Trace(
            excess_CS, reference_CS, along_CS, away_CS, end_CD=self._state[0].cpu().numpy(), size=len(self._start_D),
            accept_CS=accept_CS, curvature=curvature,
        )  # fmt: skip


def _alone(potential: Potential) -> Losses:
    return lambda live, rows_CB: [potential.losses(live[0], rows_CB)]


def _sgld(
    state: tuple[Tensor, ...], grad_CD: Tensor, away_CD: Tensor, xi_CD: Tensor, *, sampler: Sampler, t: int
) -> tuple[Tensor, ...]:
    """`samplers.sgld.step` in place: fused products round once, and recorded numbers were made with them."""
    lr = rate(sampler, t)
    drift_CD = torch.add(sampler.nbeta * grad_CD, away_CD, alpha=sampler.gamma)
    state[0].sub_(drift_CD, alpha=lr / 2).add_(xi_CD, alpha=math.sqrt(lr))
    return state


def _dot(a_CD: Tensor, b_CD: Tensor) -> Tensor:
    return (a_CD * b_CD).sum(1, dtype=torch.float64)


def _views(w_CD: Tensor, arrays: list[Tensor]) -> list[Tensor]:
    """The arrays of the part as views of the flat weights, each with a leading chain axis."""
    pieces = torch.split(w_CD, [array.numel() for array in arrays], dim=1)
    return [piece.view(len(w_CD), *array.shape) for piece, array in zip(pieces, arrays, strict=True)]


def _losses_and_gradients(losses: Losses, live: list[list[Tensor]], rows_CB: Tensor) -> list[tuple[Tensor, Tensor]]:
    """For each potential the loss of each row, (C, B), and ∇ℓ_batch of every chain, (C, D)."""
    live = [[array.detach().requires_grad_() for array in arrays] for arrays in live]
    found = losses(live, rows_CB)
    flat = [array for arrays in live for array in arrays]
    totals = [loss_CB.mean(1).sum() for loss_CB in found]
    grads = iter(torch.autograd.grad(totals, flat, materialize_grads=True))  # some may be without influence
    each = [torch.cat([next(grads).flatten(1) for _ in arrays], 1) for arrays in live]
    return [(loss_CB.detach(), grad_CD) for loss_CB, grad_CD in zip(found, each, strict=True)]

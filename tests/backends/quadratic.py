"""A quadratic loss with known minibatch noise, and its SGLD laws in closed form."""

from dataclasses import dataclass

import numpy as np
import torch

from rllc.task import Sampler


class Quadratic:
    """ℓ_row(w* + δ) = g·δ + ½ δᵀHδ + z_row·δ, with Σ z = 0 over the pool; the weights as two arrays of the part.

    With `copies` the weights are that many independent sets, each with this H and g: a chain is worth so many.
    """

    def __init__(self, hessian, slope=None, noise_NR=None, dtype=torch.float64, copies=1):
        self.hessian = torch.tensor(hessian, dtype=dtype)
        size = copies * len(self.hessian)
        self.slope = torch.zeros(len(hessian), dtype=dtype) if slope is None else torch.tensor(slope, dtype=dtype)
        self.noise = torch.zeros(1, size, dtype=dtype) if noise_NR is None else torch.tensor(noise_NR, dtype=dtype)
        self.centre = torch.linspace(-1, 1, size, dtype=dtype)
        self.start = [self.centre[:2].clone(), self.centre[2:].clone().view(-1, 1)]

    def losses(self, live, rows_CB):
        away = torch.cat([array.flatten(1) for array in live], 1) - self.centre
        each = away.unflatten(1, (-1, len(self.hessian)))
        common = (each @ self.slope + 0.5 * ((each @ self.hessian) * each).sum(2)).sum(1)
        return common[:, None] + (self.noise[rows_CB % len(self.noise)] * away[:, None]).sum(2)

    def reference(self, rows_CB):
        return torch.zeros(rows_CB.shape, dtype=self.hessian.dtype)


def rotated(eigenvalues, seed=0):
    """A dense Hessian with these eigenvalues."""
    basis, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(eigenvalues),) * 2))
    return basis @ np.diag(eigenvalues) @ basis.T


@dataclass(frozen=True)
class Law:
    """Expectations of SGLD on a quadratic started at w*: exact for every step size and number of draws."""

    value: float  # λ̂ over the kept draws
    stationary: float  # λ̂ of an endless chain
    exact: float  # λ̂ at ε → 0
    stein: float  # nβ E[δ·∇ℓ] + γ E‖δ‖² of an endless chain

    @classmethod
    def of(cls, hessian, sampler: Sampler, slope=None, noise=0.0):
        """`noise` is the variance of a row's gradient in each direction (isotropic)."""
        h, basis = np.linalg.eigh(np.asarray(hessian))
        g = np.zeros(len(h)) if slope is None else basis.T @ np.asarray(slope)
        p = sampler.nbeta * h + sampler.gamma
        a = sampler.lr * p / 2
        rho = 1 - a
        kicks = sampler.lr + (sampler.lr * sampler.nbeta / 2) ** 2 * noise / sampler.batch
        t = sampler.burn_in + sampler.every * np.arange(sampler.draws)[:, None]
        variance = kicks / (1 - rho**2) * (1 - rho ** (2 * t))
        mean = -sampler.nbeta * g / p * (1 - rho**t)
        loss = (g * mean + h * (mean**2 + variance) / 2).sum(1)
        rest = -sampler.nbeta * g / p
        end = (g * rest + h * (rest**2 + kicks / (1 - rho**2)) / 2).sum()
        exact = (h / p * sampler.nbeta / 2 - sampler.nbeta**2 * g**2 / p + sampler.nbeta**3 * g**2 * h / p**2 / 2).sum()
        spread = (p * kicks / (1 - rho**2)).sum()
        return cls(sampler.nbeta * loss.mean(), sampler.nbeta * end, float(exact), float(spread))


def expected_losses(hessian, sampler: Sampler, slope=None, gain_D=1.0):
    """E ℓ(w_t) − ℓ(w*) of every step, by its recursion: w ← w − ε_t/2 · G (nβ ∇ℓ + γ (w − w*)) + √(ε_t G) ξ.

    `gain_D` is the diagonal of G.
    """
    hessian = np.asarray(hessian)
    size = len(hessian)
    slope, gain = np.zeros(size) if slope is None else np.asarray(slope), np.diag(np.ones(size) * gain_D)
    mean, spread, losses = np.zeros(size), np.zeros((size, size)), []
    for t in range(sampler.steps):
        losses.append(slope @ mean + mean @ hessian @ mean / 2 + np.trace(hessian @ spread) / 2)
        lr = sampler.lr * (min(1, (t + 1) / sampler.warmup) if sampler.warmup else 1)
        keep = np.eye(size) - lr / 2 * gain @ (sampler.nbeta * hessian + sampler.gamma * np.eye(size))
        mean = keep @ mean - lr / 2 * sampler.nbeta * gain @ slope
        spread = keep @ spread @ keep.T + lr * gain
    return np.array(losses)

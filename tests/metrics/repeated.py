"""Many independent estimates of one quadratic loss whose SGLD law is known exactly."""

import dataclasses
import sys
from pathlib import Path

import numpy as np

from rllc import intervals
from rllc.backends import torch as backend
from rllc.metrics import llc
from rllc.task import Sampler, Task

sys.path.append(str(Path(__file__).parents[1] / "backends"))
from quadratic import Quadratic, rotated

HESSIAN = rotated([0.70, 3.91, 6.63, 9.62, 11.72, 21.82])
PAPER = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=4, draws=200, burn_in=0, batch=8, dtype="float64")


def noise(variance):
    """Gradients of 4096 rows about their mean: their covariance is exactly this variance in each direction."""
    noise_ND = np.random.default_rng(5).standard_normal((4096, len(HESSIAN)))
    noise_ND -= noise_ND.mean(0)
    return np.sqrt(variance) * noise_ND @ np.linalg.inv(np.linalg.cholesky(np.cov(noise_ND.T, bias=True))).T


def estimates(sampler, *, variance, seed, repetitions=200):
    """Estimates with their biases left in, and the same taken out; all chains run as one batch."""
    count = repetitions * sampler.chains
    rows_CSB = np.random.default_rng(seed).integers(4096, size=(count, sampler.steps, sampler.batch))
    potential = Quadratic(HESSIAN, noise_NR=noise(variance) if variance else None)
    whole = backend.run(potential, sampler, rows_CSB, noise_seeds=[seed * count + c for c in range(count)])
    arrays = {name: field for name, field in vars(whole).items() if isinstance(field, np.ndarray)}
    found = {"reported": [], "removed": []}
    for start in range(0, count, sampler.chains):
        part = {name: field[start : start + sampler.chains] for name, field in arrays.items()}
        trace = dataclasses.replace(whole, **part)
        for bias, made in found.items():
            task = Task("", "", 0, "", "", "", "llc", 0, dataclasses.replace(sampler, bias=bias))
            made.append(llc.estimate(task, trace, trace.excess_CS, 0.0, seconds=0.0))
    return found["reported"], found["removed"]


def held(made, truth, freedom=None):
    """Share of the 95 % intervals that hold the truth; by Student's t unless other degrees of freedom are given."""
    half = np.array([one.error * intervals.quantile(freedom or one.freedom) for one in made])
    return np.mean(abs(np.array([one.value for one in made]) - truth) <= half)

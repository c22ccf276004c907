"""Settings measured by real chains on quadratic losses, whose biases are known in closed form."""

import sys
from pathlib import Path

import numpy as np

from rllc.backends import torch as backend
from rllc.calibration.finding import Finding
from rllc.calibration.grid import Setting
from rllc.metrics import llc
from rllc.task import Sampler, Task

sys.path.append(str(Path(__file__).parents[1] / "backends"))
from quadratic import Law, Quadratic

__all__ = ["BASE", "Law", "ladder", "measured"]

BASE = Sampler(lr=1e-3, nbeta=30.0, gamma=200.0, chains=8, draws=200, burn_in=10, batch=1)


def measured(setting, curvatures, *, chains=64, relaxations=40.0, seed=0):
    """One estimate for each list of curvatures, as parts of one checkpoint and dataset."""
    sampler = setting.sampler(BASE, chains, relaxations)
    found = []
    for n, curvature in enumerate(curvatures):
        task = Task("run", "w", 100, f"L0H{n}", "text", "rows", "llc", seed, sampler)
        rows_CSB = np.zeros((chains, sampler.steps, 1), np.int64)
        trace = backend.run(
            Quadratic(np.diag(curvature)), sampler, rows_CSB, noise_seeds=llc.noise_seeds(task, range(chains))
        )
        found.append(llc.estimate(task, trace, trace.excess_CS, 0.0, seconds=1.0))
    return Finding(setting, tuple(found))


def ladder(lrs, curvatures, *, gamma=200.0, nbeta=30.0, **options):
    """The same at several step sizes."""
    settings = [Setting(gamma, nbeta, lr) for lr in lrs]
    return {setting: measured(setting, curvatures, **options) for setting in settings}

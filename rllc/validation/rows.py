"""One row of the table: a case measured by rllc, and by devinterp's documented call at the same settings."""

import dataclasses
import hashlib
import importlib.util
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from rllc import atomic, version
from rllc.backends import devinterp
from rllc.backends import torch as backend
from rllc.backends.contract import Potential
from rllc.metrics import llc
from rllc.task import Estimate, Sampler, Task
from rllc.validation import cases, curvature
from rllc.validation.cases import Case

PAPER = Sampler(lr=1e-3, nbeta=30.0, gamma=200.0, chains=4, draws=200, burn_in=0, batch=1)
COUNTED = 200_000  # larger potentials are not measured a second time at the paper's setting


@dataclass(frozen=True)
class Row:
    """What is known of a case, what was found, and at which setting; NaN where nothing was asked for or found.

    `relative` and `devinterp_relative` are against `exact`; `expected` is E λ̂ at this nβ and γ. `stiff` is
    ε (nβ h + γ)/2 of the largest curvature where the chains ended, `relaxations` their steps in relaxation times
    2/(ε γ) of a flat direction. `paper` is λ̂ at ε = 1e-3, nβ = 30, γ = 200, and `count` is ½ nβ/γ Tr H there. `seconds`
    are wall time of one thread.
    """

    name: str
    family: str
    weights: int
    exact: float
    multiplicity: int
    expected: float
    value: float
    error: float
    relative: float
    health: str
    devinterp: float
    devinterp_error: float
    devinterp_relative: float
    seconds: float
    devinterp_seconds: float
    nbeta: float
    gamma: float
    lr: float
    chains: int
    burn_in: int
    draws: int
    stiff: float
    relaxations: float
    paper: float
    count: float
    note: str


def measure(case: Case) -> Row:
    """Run the chains of one case, and devinterp's where it is installed."""
    potential, sampler, exact = case.build(), case.sampler, float(case.exact.value)
    estimate, end_CD = _sample(case.name, potential, sampler)
    weights = end_CD.shape[1]
    theirs = _devinterp(potential, sampler)
    steep = curvature.largest(potential, end_CD)
    counted = weights <= COUNTED
    return Row(
        name=case.name, family=case.family, weights=weights, exact=exact, multiplicity=case.exact.multiplicity,
        expected=math.nan if case.expected is None else case.expected,
        value=estimate.value, error=estimate.error, relative=estimate.value / exact - 1, health=estimate.health,
        devinterp=theirs[0], devinterp_error=theirs[1], devinterp_relative=theirs[0] / exact - 1,
        seconds=estimate.seconds, devinterp_seconds=theirs[2],
        nbeta=sampler.nbeta, gamma=sampler.gamma, lr=sampler.lr, chains=sampler.chains, burn_in=sampler.burn_in,
        draws=sampler.draws, stiff=sampler.lr * (sampler.nbeta * steep + sampler.gamma) / 2,
        relaxations=sampler.steps * sampler.lr * sampler.gamma / 2,
        paper=_sample(case.name, potential, dataclasses.replace(PAPER, dtype=sampler.dtype))[0].value if counted
        else math.nan,
        count=PAPER.nbeta / PAPER.gamma * curvature.trace(potential) / 2 if counted else math.nan,
        note=case.note,
    )  # fmt: skip


def kept(folder: Path, case: Case) -> Row:
    """Read the row of a case, or measure and store it where none was made of it by this code."""
    told = json.dumps([case.name, dataclasses.asdict(case.sampler), str(case.exact), version.code()])
    file = folder / f"{hashlib.sha256(told.encode()).hexdigest()[:16]}.json"
    if not file.exists():
        atomic.write_text(file, json.dumps(dataclasses.asdict(measure(case))))
    return Row(**json.loads(file.read_text(encoding="utf-8")))


def kept_by_name(job: tuple[Path, str]) -> Row:
    """Do the same for a case that is only named: what a worker process is sent."""
    folder, name = job
    torch.set_num_threads(1)
    return kept(folder, next(case for case in cases.every() if case.name == name))


def _sample(name: str, potential: Potential, sampler: Sampler) -> tuple[Estimate, torch.Tensor]:
    """Estimate with rllc's own backend and estimator, and the weights where the chains ended."""
    task = Task("validation", "", 0, name, "population", "", "llc", 0, sampler)
    rows_CSB = np.zeros((sampler.chains, sampler.steps, 1), dtype=np.int64)
    seeds = llc.noise_seeds(task, range(sampler.chains))
    began = time.perf_counter()
    trace = backend.run(potential, sampler, rows_CSB, noise_seeds=seeds)
    seconds = time.perf_counter() - began
    return llc.estimate(task, trace, trace.excess_CS, 0.0, seconds=seconds), torch.from_numpy(trace.end_CD)


def _devinterp(potential: Potential, sampler: Sampler) -> tuple[float, float, float]:
    """Mean over chains, its standard error and seconds of devinterp's own call; NaN where it is not installed."""
    if importlib.util.find_spec("devinterp") is None:
        return math.nan, math.nan, math.nan
    chains_C, seconds = devinterp.documented(potential, sampler, rows=1, seed=0)
    return float(chains_C.mean()), float(chains_C.std(ddof=1)) / math.sqrt(len(chains_C)), seconds

"""What a plan costs before it is launched: chain steps, floating-point operations, and hours on this machine.

Hours come from the seconds of finished tasks of the same kind on this host where there are any, else from `rllc.probe`.
"""

import dataclasses
import math
import socket
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rllc import plan, progress, store
from rllc.models import parts
from rllc.plan import Cell
from rllc.task import Task

Kind = tuple[object, ...]


@dataclass(frozen=True)
class Rate:
    """Seconds of a worker for a task of one kind: fixed + flop · per_flop."""

    fixed: float
    per_flop: float


@dataclass(frozen=True)
class Cost:
    """What is left to do of a plan.

    Attributes:
        tasks: in the plan.
        done: of them.
        steps: chain steps (of one chain each) of the others.
        flop: floating-point operations of the others, roughly.
        seconds: worker time of the others; NaN where nothing tells.
    """

    tasks: int
    done: int
    steps: int
    flop: float
    seconds: float

    def describe(self, workers: int) -> str:
        """As a person says it, for a number of workers."""
        left = self.tasks - self.done
        said = f"{self.tasks} tasks, {self.done} of them done; left: {self.steps:.3g} chain steps, {self.flop:.2g} FLOP"
        if left:
            said += f", about {hours(self.seconds / min(workers, left))} with {workers} worker{'s' * (workers > 1)}"
        return said


def hours(seconds: float) -> str:
    """Seconds as h:mm:ss with the decimal hours; an unknown time where nothing told."""
    return "an unknown time" if math.isnan(seconds) else f"{progress.clock(seconds)} ({seconds / 3600:.2g} h)"


def estimate(cells: Iterable[Cell], rates: Mapping[Kind, Rate], done: Set[Task] = frozenset()) -> Cost:
    """Cost of the cells that are not done (see `named`); a kind without a rate of its own takes the mean rate."""
    cells = list(cells)
    left = [cell for cell in cells if named(cell.task) not in done]
    mean = Rate(*np.mean([(rate.fixed, rate.per_flop) for rate in rates.values()], 0)) if rates else None
    seconds = 0.0
    for cell in left:
        rate = rates.get(kind(cell), mean)
        seconds += math.nan if rate is None else rate.fixed + rate.per_flop * cell.cost
    steps = sum(cell.task.sampler.chains * cell.task.sampler.steps for cell in left if cell.task.sampler)
    return Cost(len(cells), len(cells) - len(left), steps, sum(cell.cost for cell in left), seconds)


def named(task: Task) -> Task:
    """A task without its content hashes: what can be said of it before its files exist."""
    return dataclasses.replace(task, weights="", rows="", loss="")


def done(sweep: Path) -> set[Task]:
    """Tasks of a sweep that have a result, as `named`."""
    present = store.keys(sweep)
    return {named(cell.task) for cell in plan.read(sweep) if cell.task.key in present}


def kind(cell: Cell) -> Kind:
    """What two cells share that take the same time a chain step.

    The metric, part, FLOP of a step and arithmetic; and the length up to a factor of 4, for what a task takes beside
    its steps (a backend's compilation, say) would be multiplied up with it.
    """
    task, sampler = cell.task, cell.task.sampler
    layer, head = parts.place(task.part)
    part = layer if head >= 0 else task.part
    if sampler is None:
        return task.metric, cell.cost
    arithmetic = sampler.method, sampler.dtype, sampler.products, sampler.backend, sampler.reference
    length = sampler.steps.bit_length() // 2, sampler.budget
    return task.metric, part, round(cell.cost / sampler.steps), *length, *arithmetic


def past(root: Path) -> dict[Kind, Rate]:
    """Rates of all finished tasks of the sweeps and calibrations under `root` that ran on this host."""
    seen: dict[Kind, list[tuple[float, float]]] = defaultdict(list)
    for sweep in [*root.glob("sweeps/*"), *root.glob("sweeps/*/calibration")]:
        files = list(sweep.glob(f"index/{socket.gethostname()}-*.jsonl"))
        lines = [line for file in files for line in store.entries(file.read_bytes().split(b"\n"))]
        seconds = {line["key"]: line["seconds"] for line in lines}
        for cell in plan.read(sweep) if seconds else []:
            if seconds.get(cell.task.key) is not None:
                seen[kind(cell)].append((cell.cost, seconds[cell.task.key]))
    return {kind: fit(pairs) for kind, pairs in seen.items()}


def fit(pairs: Sequence[tuple[float, float]]) -> Rate:
    """Least-squares line through (FLOP, seconds), or one through the origin where all FLOP are equal or it falls."""
    flop_N, seconds_N = np.array(pairs).T
    if np.ptp(flop_N) > 0:
        slope, fixed = np.polyfit(flop_N, seconds_N, 1)
        if slope > 0 and fixed > 0:
            return Rate(float(fixed), float(slope))
    return Rate(0.0, float(seconds_N.sum() / flop_N.sum()))

"""Seconds of a task of each kind, from a few steps of a random model of the same shape: no file of a run is needed."""

import dataclasses
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from rllc import cost, launch, plan, store
from rllc.config import Model
from rllc.cost import Kind, Rate
from rllc.plan import Cell

KINDS = 6  # with chains probed at most, those with the most work
DRAWS = (3, 3, 18, 18)  # of the tasks of a probed kind; the first of each length also opens a pool
STEP_FLOP = 5e8  # of a probed step: larger minibatches and more chains are cut to this where they can be
SECONDS = 15.0  # of the whole probe, the start of a process (3 s) in it


def rates(cells: Sequence[Cell], *, root: Path, model: Model, pool: int, threads: int) -> dict[Kind, Rate]:
    """Rates of the kinds of these cells: of finished tasks under the root, else of a probe (a few seconds).

    `pool` is the number of estimation rows of a dataset.
    """
    found = cost.past(root)
    unknown = [cell for cell in cells if cost.kind(cell) not in found]
    return {**found, **(probe(unknown, model=model, pool=pool, threads=threads) if unknown else {})}


def probe(cells: Sequence[Cell], *, model: Model, pool: int, threads: int) -> dict[Kind, Rate]:
    """Rates of the kinds with the most work, from a few steps of a random model of the same shape by one worker.

    A kind whose step has more than STEP_FLOP is probed with fewer rows, and its time taken in proportion to the FLOP.
    Opening a pool is shared by the tasks that it serves in the plan.
    """
    most = _most(cells)
    with tempfile.TemporaryDirectory(prefix="rllc-probe-") as folder:
        sweep = Path(folder, "sweeps", "probe")
        rows = _place(Path(folder), model, pool=pool, most=most)
        trials = [[_trial(same[0], n, Path(folder)) for n in range(len(DRAWS))] for same in most]
        plan.write(sweep, [cell for of_kind in trials for cell in of_kind])
        command = [sys.executable, "-m", "rllc.work", str(sweep), f"--threads={threads}", f"--parent={os.getpid()}"]
        with suppress(TimeoutError):
            launch.run([command], threads=threads, at_once=1, watch=_clock(SECONDS))
        seconds = {key: line["seconds"] for key, line in store.index(sweep).items()}
    found = {}
    for same, of_kind in zip(most, trials, strict=True):
        times = [(cell.cost, seconds[cell.task.key]) for cell in of_kind if cell.task.key in seconds]
        if times:
            found[cost.kind(same[0])] = _rate(times, same, pool / rows)
    return found


def _rate(times: Sequence[tuple[float, float]], same: Sequence[Cell], larger: float) -> Rate:
    """The rate of a kind from its trials; its pools are `larger` than the probe's, and each serves several tasks.

    Where time was up before all trials were made, it is that of those that were: too high, if anything.
    """
    if len(times) < len(DRAWS):
        return cost.fit(times)
    (_, opening), short, _, long = times
    pools = {(cell.task.run, cell.task.step, cell.task.dataset, cell.task.sampler) for cell in same}
    line, share = cost.fit([short, long]), max(opening - short[1], 0.0) * larger * len(pools) / len(same)
    return Rate(line.fixed + share, line.per_flop)


def _most(cells: Sequence[Cell]) -> list[list[Cell]]:
    """The cells of each kind that is probed."""
    by_kind: dict[Kind, list[Cell]] = defaultdict(list)
    for cell in cells:
        by_kind[cost.kind(cell)].append(cell)
    chains = [same for same in by_kind.values() if same[0].task.sampler]
    scores = [same for same in by_kind.values() if not same[0].task.sampler]
    return [*sorted(chains, key=lambda same: -sum(cell.cost for cell in same))[:KINDS], *scores]


def _place(folder: Path, model: Model, *, pool: int, most: Sequence[Sequence[Cell]]) -> int:
    """Write a random checkpoint and random rows; how many rows: the pool's, or as few as a cheap probe allows."""
    from rllc.models import decoder
    from rllc.zoo import folder as zoo

    zoo.save(folder / "probe.safetensors", model, decoder.init(model, 0))
    largest = max(_step_flop(same[0]) for same in most)
    rows = max(4, int(pool * min(1.0, STEP_FLOP / largest))) if largest else pool
    np.save(folder / "rows.npy", np.random.default_rng(0).integers(model.d_vocab, size=(rows, model.n_ctx)))
    return rows


def _clock(seconds: float) -> Callable[[], None]:
    """What raises TimeoutError when it is called after so many seconds."""
    end = time.monotonic() + seconds

    def watch() -> None:
        if time.monotonic() > end:
            raise TimeoutError

    return watch


def _step_flop(cell: Cell) -> float:
    return cell.cost / cell.task.sampler.steps if cell.task.sampler else 0.0


def _trial(cell: Cell, n: int, folder: Path) -> Cell:
    """The n-th task of a probed kind, on the probe's files."""
    from rllc.data.rows import content_hash
    from rllc.zoo import folder as zoo

    checkpoint, rows = folder / "probe.safetensors", folder / "rows.npy"
    sampler, flop = cell.task.sampler, cell.cost
    if sampler is not None:
        over = _step_flop(cell) / STEP_FLOP
        batch = max(1, int(sampler.batch / max(1.0, over)))
        chains = max(1, int(sampler.chains * sampler.batch / batch / max(1.0, over)))
        chains = min(chains, sampler.chains)
        short = dataclasses.replace(
            sampler, chains=chains, draws=DRAWS[n], burn_in=0, every=1, batch=batch, budget=None
        )  # fmt: skip
        flop *= short.steps * chains * batch / (sampler.steps * sampler.chains * sampler.batch)
        sampler = short
    task = dataclasses.replace(
        cell.task, seed=n, sampler=sampler, weights=zoo.describe(checkpoint)[1], rows=content_hash(np.load(rows))
    )
    return Cell(task, str(checkpoint), str(rows), flop)

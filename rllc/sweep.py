"""The main job: train, plan, launch, gather, cluster, report; each stage does only what is missing."""

import dataclasses
import json
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rllc import (
    atomic,
    closing,
    cost,
    gather,
    kept,
    launch,
    modules,
    plan,
    probe,
    runs,
    scopes,
    status,
    store,
    track,
    version,
)
from rllc.backends import installed
from rllc.config import Config
from rllc.data import documents, rows
from rllc.derive import cluster, draw, folder, gather_results
from rllc.mistake import Mistake, Unfinished
from rllc.plan import Cell

ORDER = ("train", "plan", "launch", "gather", "cluster", "report")


def run(config: Config) -> int:
    """Do the stages asked for, in order; the exit code (0 all done, 1 something failed, diverged or is missing).

    Raises:
        Mistake: the configuration cannot be carried out; found before any long work where that is possible.
    """
    wanted = [stage for stage in ORDER if stage in (config.stages or ORDER)]
    steps = check(config)
    seconds: dict[str, float] = {}
    with atomic.owner(folder(config), "name"):
        if "train" in wanted:
            with _timed(seconds, "train"):
                train(config)
        if "plan" in wanted:
            with _timed(seconds, "plan"):
                make_plan(config, steps)
        with _collector(config) as collector:
            code = 0
            if "launch" in wanted:
                with _timed(seconds, "launch"):
                    code = work(config, collector)
            if "gather" in wanted:
                with _timed(seconds, "gather"):
                    code = max(code, gather_results(config))
            if "cluster" in wanted:
                with _timed(seconds, "cluster"), _holes_are_told(code, folder(config) / "clusters"):
                    cluster(config)
            if "report" in wanted:
                with _timed(seconds, "report"), _holes_are_told(code, folder(config) / "report"):
                    draw(config, seconds)
            collector.finish({"labels": closing.rows(folder(config) / "clusters" / "labels.csv")})
    print(f"time: {', '.join(f'{stage} {spent:.1f} s' for stage, spent in seconds.items())}")
    return code


def check(config: Config) -> dict[str, list[int]]:
    """Check what can be known before any work; the steps of each run.

    Raises:
        Mistake: a step, part, dataset or number of clusters that does not exist; a backend or W&B not installed.
    """
    track.check(config.track)
    installed.check(config.sampler)
    if config.module is not None:
        return modules.check(config, config.module)
    steps, model = runs.steps(config), runs.model(config)
    wanted = plan.parts_of(model, config.grid.parts)
    for sentence in filter(None, (plan.caution(model, part) for part in config.grid.parts)):
        print(f"rllc: grid.parts: {sentence}", file=sys.stderr)
    for name in {*(config.grid.datasets or config.data), *([] if config.path else [config.train.data])}:
        with rows.named(name):
            documents.fingerprint(config.data[name])
    if fitting := scopes.fitting(config.cluster, wanted):
        scopes.check(fitting, wanted)
    return steps


def rehearse(config: Config) -> str:
    """What the chains of the sweep will cost, told before anything is made or started.

    Raises:
        Mistake: as `check` does.
    """
    cells = outline(config, check(config))
    pool = max(dataset.pool for dataset in config.data.values())
    rates = probe.rates(
        cells, root=Path(config.root), model=runs.model(config), pool=pool, threads=config.launch.threads
    )
    return cost.estimate(cells, rates, cost.done(folder(config))).describe(launch.workers(config.launch))


def outline(config: Config, steps: dict[str, list[int]]) -> list[Cell]:
    """The cells that a plan will have, without the hashes and paths of files that may not exist yet."""
    model = runs.model(config)
    checkpoints = [plan.Checkpoint(run, step, "", "", model) for run, found in steps.items() for step in found]
    datasets = [plan.Dataset(name, "", "") for name in config.grid.datasets or config.data]
    repeats = plan.Dataset("repeats", "", "")
    return plan.cells(checkpoints, datasets, repeats, grid=config.grid, sampler=config.sampler)


def train(config: Config) -> None:
    """Make the text and tokenizer, and train the runs that are not finished.

    Raises:
        Mistake: a text cannot be read or is too little, or a run's folder holds another run.
        Unfinished: a training process failed or was killed.
    """
    if config.module is not None:
        return
    runs.prepare(config)
    runs.datasets(config, runs.model(config))  # too little text is found now, not after the training
    named = ", ".join(run.name for run in runs.named(config))
    if runs.trained(config):
        print(f"train: {named}: nothing to do")
    elif runs.fit(config):
        raise Unfinished(f"training of {named} did not finish; run the same command again")


def make_plan(config: Config, steps: dict[str, list[int]]) -> None:
    """Write the plan, or let it grow by the cells that are new."""
    sweep, old = folder(config), plan.read(folder(config))
    new = _cells(config, steps) if config.module is None else modules.cells(config, config.module, steps)
    whole = plan.grow(old, new, sweep)
    if len(whole) > len(old):
        plan.write(sweep, whole)
        atomic.write_text(sweep / "config.yaml", _yaml(config))
        environment = {"code": version.code(), "python": platform.python_version(), "packages": version.packages()}
        atomic.write_text(sweep / "env.json", json.dumps(environment, indent=1) + "\n")
    print(f"plan: {len(whole)} tasks, {len(whole) - len(old)} of them new")


def _cells(config: Config, steps: dict[str, list[int]]) -> list[Cell]:
    datasets, repeats = runs.datasets(config, runs.model(config))
    cells = plan.cells(runs.checkpoints(config, steps), datasets, repeats, grid=config.grid, sampler=config.sampler)
    return kept.mark(cells, config.grid.keep or [], runs.model(config).n_ctx, plan.read(folder(config)))


def work(config: Config, collector: track.Collector) -> int:
    """Start the workers for what is missing, and wait for them."""
    sweep = folder(config)
    cells = plan.required(sweep)
    done = store.keys(sweep) & {cell.task.key for cell in cells}
    if len(done) == len(cells):
        print(f"chains: all {len(cells)} tasks are done, nothing to do")
        return _verdict(sweep, config)
    store.clear_errors(sweep)
    tasks = {cell.task.key: cell.task for cell in cells}
    collector.update(gather.line(tasks[key], line) for key, line in store.index(sweep).items() if key in tasks)

    def on_line(line: dict[str, Any]) -> None:
        if line["key"] in tasks:
            collector.update([gather.line(tasks[line["key"]], line)])

    code = launch.sweep(sweep, cells, config.launch, on_line=on_line)
    collector.update([], failed=store.errors(sweep).keys() & tasks.keys())
    return max(min(code, 1), _verdict(sweep, config))


@contextmanager
def _holes_are_told(code: int, made: Path) -> Iterator[None]:
    """Where the sweep itself already has holes, say so instead of calling them the user's mistake."""
    try:
        yield
    except Mistake as mistake:
        if not code:
            raise
        shutil.rmtree(made, ignore_errors=True)
        print(f"rllc: no {made.name}: {mistake}", file=sys.stderr)


def _collector(config: Config) -> track.Collector:
    """The W&B collector where there is something new to show, else one that shows nothing."""
    sweep = folder(config)
    tasks = [cell.task for cell in plan.read(sweep)]
    idle = {task.key for task in tasks} <= store.keys(sweep)
    return track.Collector(sweep, dataclasses.replace(config.track, kind="none") if idle else config.track, tasks)


def _verdict(sweep: Path, config: Config) -> int:
    """1 where a result is missing or diverged, said in a few lines; else 0."""
    found = status.status(sweep)
    if found.whole:
        return 0
    print(status.describe(found, sweep, workers=launch.workers(config.launch)), file=sys.stderr)
    return 1


def _yaml(config: Config) -> str:
    import yaml

    return str(yaml.safe_dump(dataclasses.asdict(config), sort_keys=False, allow_unicode=True))


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    seconds[stage] = time.monotonic() - began

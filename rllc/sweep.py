"""The main job: train, plan, launch, gather, cluster, report; each stage does only what is missing."""

import dataclasses
import hashlib
import json
import platform
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rllc import atomic, closing, gather, launch, plan, progress, runs, scopes, status, store, track, version
from rllc.config import Config
from rllc.data import documents, rows
from rllc.mistake import Mistake, Unfinished

ORDER = ("train", "plan", "launch", "gather", "cluster", "report")


def folder(config: Config) -> Path:
    """Where the sweep's files are; those of a foreign table lie under the name of its file."""
    return Path(config.root, "sweeps", config.name if config.input is None else Path(config.input).stem).resolve()


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
        Mistake: a step, part, dataset or number of clusters that does not exist, or W&B asked for and not installed.
    """
    track.check(config.track)
    steps, model = runs.steps(config), runs.model(config)
    wanted = plan.parts_of(model, config.grid.parts)
    for name in {*(config.grid.datasets or config.data), *([] if config.path else [config.train.data])}:
        with rows.named(name):
            documents.fingerprint(config.data[name])
    if fitting := scopes.fitting(config.cluster, wanted):
        scopes.check(fitting, wanted)
    return steps


def train(config: Config) -> None:
    """Make the text and tokenizer, and train the runs that are not finished.

    Raises:
        Mistake: a text cannot be read or is too little, or a run's folder holds another run.
        Unfinished: a training process failed or was killed.
    """
    runs.prepare(config)
    runs.datasets(config, runs.model(config))  # too little text is found now, not after the training
    named = ", ".join(run.name for run in runs.named(config))
    if runs.trained(config):
        print(f"train: {named}: nothing to do")
    elif runs.fit(config):
        raise Unfinished(f"training of {named} did not finish; run the same command again")


def make_plan(config: Config, steps: dict[str, list[int]]) -> None:
    """Write the plan, or let it grow by the cells that are new."""
    sweep, model = folder(config), runs.model(config)
    datasets, repeats = runs.datasets(config, model)
    new = plan.cells(runs.checkpoints(config, steps), datasets, repeats, grid=config.grid, sampler=config.sampler)
    old = plan.read(sweep)
    whole = plan.grow(old, new, sweep)
    if len(whole) > len(old):
        plan.write(sweep, whole)
        atomic.write_text(sweep / "config.yaml", _yaml(config))
        environment = {"code": version.code(), "python": platform.python_version(), "packages": version.packages()}
        atomic.write_text(sweep / "env.json", json.dumps(environment, indent=1) + "\n")
    print(f"plan: {len(whole)} tasks, {len(whole) - len(old)} of them new")


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


def track_again(config: Config) -> None:
    """Write the W&B runs of a sweep from its gathered files, from nothing.

    Raises:
        Mistake: `track` is none, W&B is not installed, or nothing was gathered.
    """
    from pyarrow import parquet

    if config.track.kind == "none":
        raise Mistake("track: 'none' shows nothing; legal here: wandb.")
    sweep = folder(config)
    estimates = parquet.read_table(_gathered(sweep))
    track.collect(sweep, config.track, estimates, tables={"labels": closing.rows(sweep / "clusters" / "labels.csv")})


def gather_results(config: Config) -> int:
    """Collect the results that are there into Parquet files."""
    sweep = folder(config)
    cells = plan.required(sweep)
    present = sorted(store.keys(sweep) & {cell.task.key for cell in cells})
    stamp = _digest([*present, version.code()])
    if _fresh(sweep / "gathered.txt", stamp) and all((sweep / name).exists() for name in gather.FILES):
        print("gather: nothing to do")
    else:
        gather.gather(sweep, cells)
        atomic.write_text(sweep / "gathered.txt", stamp)
    if len(present) < len(cells):
        print(f"rllc: {len(cells) - len(present)} of {len(cells)} results are missing.", file=sys.stderr)
        return 1
    return 0


def cluster(config: Config) -> None:
    """Cluster the gathered curves, or those of `input`, and say how well the clusters agree with what the heads do.

    Raises:
        Mistake: the curves have holes or diverged cells, which are named.
    """
    from rllc import clustering

    sweep = folder(config)
    table = _table(config)
    curves = table or _gathered(sweep)
    stamp = _digest([_content(curves), repr(config.cluster), version.code()])
    if _fresh(sweep / "clusters" / "stamp.txt", stamp):
        print("cluster: nothing to do")
        return
    with progress.bar("cluster") as show:
        if clustering.run(sweep, config.cluster, table=table, progress=show) is None:
            print("cluster: fewer than three curves in a scope, nothing to group")
    atomic.write_text(sweep / "clusters" / "stamp.txt", stamp)


def draw(config: Config, seconds: dict[str, float] | None = None) -> None:
    """Draw the figures and the page from the gathered files, or from `input`, and the clusters."""
    from rllc import report

    sweep = folder(config)
    table = _table(config)
    derived = [*sweep.glob("*.parquet"), *sweep.glob("*.yaml"), sweep / "env.json", *(sweep / "clusters").glob("*.*")]
    parts = [_content(file) for file in sorted([table or _gathered(sweep), *derived]) if file.exists()]
    stamp = _digest([*parts, repr(config.report), version.code()])
    if _fresh(sweep / "report" / "stamp.txt", stamp):
        print("report: nothing to do")
        return
    with progress.bar("report") as show:
        report.draw(sweep, config.report, seconds=seconds, table=table, progress=show)
    atomic.write_text(sweep / "report" / "stamp.txt", stamp)


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


def _table(config: Config) -> Path | None:
    """The foreign table, where one is given."""
    if config.input is None:
        return None
    if not Path(config.input).is_file():
        raise Mistake(f"input: {config.input!r} is not a file; give a .csv or .parquet table of curves.")
    return Path(config.input)


def _collector(config: Config) -> track.Collector:
    """The W&B collector where there is something new to show, else one that shows nothing."""
    sweep = folder(config)
    tasks = [cell.task for cell in plan.read(sweep)]
    idle = {task.key for task in tasks} <= store.keys(sweep)
    return track.Collector(sweep, dataclasses.replace(config.track, kind="none") if idle else config.track, tasks)


def _gathered(sweep: Path) -> Path:
    file = sweep / "estimates.parquet"
    if not file.exists():
        raise Mistake(f"name: {file} does not exist; run `rllc sweep`, or `rllc gather` where the results are there.")
    return file


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


def _content(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()


def _fresh(stamp: Path, digest: str) -> bool:
    """Whether the files beside this stamp were made from the same inputs by the same code."""
    return stamp.exists() and stamp.read_text() == digest


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    seconds[stage] = time.monotonic() - began

"""The main job: train, plan, launch, gather, cluster, report; each stage does only what is missing."""

import dataclasses
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rllc import (
    after,
    atomic,
    closing,
    cost,
    gather,
    kept,
    launch,
    making,
    modules,
    plan,
    planning,
    probe,
    resolve,
    runs,
    scopes,
    store,
    submitting,
    track,
    version,
)
from rllc.backends import installed
from rllc.config import Config, Local, Model, Slurm
from rllc.data import documents, rows
from rllc.derive import folder
from rllc.launch import slurm, training
from rllc.mistake import Mistake, Unfinished
from rllc.plan import Cell

ORDER = ("train", "plan", "launch", "gather", "cluster", "report")


def run(config: Config) -> int:
    """Do the stages asked for, in order; the exit code (0 all done, 1 something failed, diverged or is missing).

    Raises:
        Mistake: the configuration cannot be carried out; found before any long work where that is possible.
    """
    wanted = [stage for stage in ORDER if stage in (config.stages or ORDER)]
    if isinstance(config.launch, Slurm) and "launch" in wanted:
        slurm.check()
    steps = check(config)
    seconds: dict[str, float] = {}
    with atomic.owner(folder(config), "name"), collector(config) as shown:
        if "train" in wanted:
            with after.timed(seconds, "train"):
                train(config, watch=shown.watch)
        if "plan" in wanted:
            with after.timed(seconds, "plan"):
                make_plan(config, steps)
        away = config.launch if isinstance(config.launch, Slurm) and "launch" in wanted else None
        if away and not submitting.submit(config, away, wanted):
            away = None
        code = 0 if away else _here(config, wanted, seconds, shown)
    if away and away.wait:
        with after.timed(seconds, "launch"):
            code = submitting.follow(config)
    print(f"time: {', '.join(f'{stage} {spent:.1f} s' for stage, spent in seconds.items())}")
    return code


def _here(config: Config, wanted: Sequence[str], seconds: dict[str, float], shown: track.Collector) -> int:
    """Do the stages from the chains on with processes of this machine."""
    code = 0
    if "launch" in wanted:
        with after.timed(seconds, "launch"):
            code = work(config, shown)
    code = after.finish(config, wanted, seconds, code=code)
    shown.finish(lambda: closing.overview(folder(config)))
    return code


def check(config: Config) -> dict[str, list[int]]:
    """Check what can be known before any work; the steps of each run.

    Raises:
        Mistake: a step, part, dataset or number of clusters that does not exist; a grid without cells; a backend or
            W&B not installed.
    """
    track.check(config.track)
    installed.check(config.sampler)
    if config.module is not None:
        found = modules.check(config, config.module)
        _check_report(config, config.grid.parts, found)
        return found
    steps, models = runs.steps(config), runs.models(config)
    wanted, *_ = [_parts(config, run, model) for run, model in models.items()]
    cells = outline(config, {run: found[:1] for run, found in steps.items()})  # each step has the same cells
    if not cells:
        raise Mistake(
            f"grid.metrics: {config.grid.metrics} measure nothing of grid.parts {config.grid.parts}; scores are of "
            "whole heads, as L0H1, and compositions and paths of two heads of different layers."
        )
    model = next(iter(models.values()))
    for sentence in filter(None, (planning.caution(model, part) for part in config.grid.parts)):
        print(f"rllc: grid.parts: {sentence}", file=sys.stderr)
    for name in {*(config.grid.datasets or config.data), *([] if config.elsewhere else [config.train.data])}:
        with rows.named(name):
            documents.fingerprint(config.data[name])
    if fitting := scopes.fitting(config.cluster, wanted):
        scopes.check(fitting, wanted)
    _check_report(config, [cell.task.part for cell in cells], steps)
    return steps


def _check_report(config: Config, parts: Sequence[str], steps: dict[str, list[int]]) -> None:
    """Check what is asked of the report, which can draw what was planned before, too."""
    if config.report.traces is None and not config.report.stages:
        return
    from rllc.report import asked

    before = [cell.task for cell in plan.read(folder(config))]
    asked.traces(config.report.traces, {*parts, *(task.part for task in before)})
    past = {run: [task.step for task in before if task.run == run] for run in steps}
    asked.stages(config.report.stages, {run: [*found, *past[run]] for run, found in steps.items()})


def _parts(config: Config, run: str, model: Model) -> list[str]:
    """The parts of the grid in a run's model; where there are several runs, a mistake names the run."""
    try:
        return planning.parts_of(model, config.grid.parts)
    except Mistake as mistake:
        if len(runs.named(config)) == 1:
            raise
        raise Mistake(f"run {run}: {mistake}") from None


def rehearse(config: Config) -> str:
    """What the chains of the sweep will cost, told before anything is made or started.

    Raises:
        Mistake: as `check` does.
    """
    steps = check(config)
    if config.module is not None:
        cells, rates = modules.cells(config, config.module, steps), cost.past(Path(config.root))
    else:
        cells, pool = outline(config, steps), max(dataset.pool for dataset in config.data.values())
        rates = probe.rates(
            cells, root=Path(config.root), model=runs.model(config), pool=pool, threads=launch.threads(config.launch)
        )
    if isinstance(config.launch, Slurm):
        return submitting.rehearse(config, config.launch, cells, rates)
    return f"sweep: {cost.estimate(cells, rates, cost.done(folder(config))).describe(launch.workers(config.launch))}"


def outline(config: Config, steps: dict[str, list[int]]) -> list[Cell]:
    """The cells that a plan will have, without the hashes and paths of files that may not exist yet."""
    models = runs.models(config)
    checkpoints = [
        planning.Checkpoint(run, step, "", "", models[run]) for run, found in steps.items() for step in found
    ]
    datasets = [planning.Dataset(name, "", "") for name in config.grid.datasets or config.data]
    repeats = planning.Dataset("repeats", "", "")
    return planning.cells(checkpoints, datasets, repeats, grid=config.grid, sampler=config.sampler)


def train(config: Config, *, watch: Callable[[], None] = lambda: None) -> None:
    """Make the text and tokenizer, and train the runs that are not finished; `watch` is called now and then.

    Raises:
        Mistake: a text cannot be read or is too little, or a run's folder holds another run.
        Unfinished: a training process failed or was killed.
    """
    if config.module is not None:
        return
    making.prepare(config)
    runs.datasets(config, runs.model(config))  # too little text is found now, not after the training
    named = ", ".join(run.name for run in runs.named(config))
    if making.trained(config):
        print(f"train: {named}: nothing to do")
        return
    for run in runs.named(config):
        if jobs := training.alive(run.path):
            raise Unfinished(f"{run.name} is trained by job {' '.join(jobs)}, which is queued or runs; wait for it")
    if making.fit(config, watch=watch):
        raise Unfinished(f"training of {named} did not finish; run the same command again")


def make_plan(config: Config, steps: dict[str, list[int]]) -> None:
    """Write the plan, or let it grow by the cells that are new."""
    sweep, old = folder(config), plan.read(folder(config))
    new = _cells(config, steps, old) if config.module is None else modules.cells(config, config.module, steps)
    whole = plan.grow(old, new, sweep)
    if len(whole) > len(old):
        plan.write(sweep, whole)
        atomic.write_text(sweep / "config.yaml", resolve.text(config))
        version.record(sweep)
    print(f"plan: {len(whole)} tasks, {len(whole) - len(old)} of them new")


def _cells(config: Config, steps: dict[str, list[int]], old: Sequence[Cell]) -> list[Cell]:
    datasets, repeats = runs.datasets(config, runs.model(config))
    cells = planning.cells(runs.checkpoints(config, steps), datasets, repeats, grid=config.grid, sampler=config.sampler)
    return kept.mark(cells, config.grid.keep or [], runs.model(config).n_ctx, old)


def work(config: Config, collector: track.Collector) -> int:
    """Start the workers for what is missing, and wait for them."""
    sweep = folder(config)
    cells = plan.required(sweep)
    done = store.keys(sweep) & {cell.task.key for cell in cells}
    if len(done) == len(cells):
        print(f"chains: all {len(cells)} tasks are done, nothing to do")
        return after.verdict(sweep)
    version.record(sweep)
    store.tidy(sweep)
    store.clear_errors(sweep)
    tasks = {cell.task.key: cell.task for cell in cells}
    collector.expect(tasks.values())
    collector.update(gather.line(tasks[key], line) for key, line in store.index(sweep).items() if key in tasks)

    def on_line(line: dict[str, Any]) -> None:
        if line["key"] in tasks:
            collector.update([gather.line(tasks[line["key"]], line)])

    code = launch.sweep(sweep, cells, launch.here(config.launch), on_line=on_line)
    collector.update([], failed=store.errors(sweep).keys() & tasks.keys())
    return max(min(code, 1), after.verdict(sweep))


def collector(config: Config) -> track.Collector:
    """The W&B collector of a sweep; it shows nothing where nothing new is trained or measured."""
    named = [] if config.module is not None else runs.named(config)
    here = isinstance(config.launch, Local)  # elsewhere a job shows it
    shown = config.track if here else dataclasses.replace(config.track, kind="none")
    return track.Collector(folder(config), shown, {run.name: run.path / "metrics.jsonl" for run in named})

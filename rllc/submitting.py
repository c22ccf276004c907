"""The launch stage on Slurm: submits what is missing, and waits for it where that is asked."""

import dataclasses
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from rllc import after, cost, following, plan, probe, resolve, runs, version
from rllc.config import Config, Slurm
from rllc.cost import Kind, Rate
from rllc.derive import folder
from rllc.launch import limit, queue, script, size, slurm, submission
from rllc.launch.wait import wait
from rllc.plan import Cell


def submit(config: Config, launch: Slurm, wanted: Collection[str]) -> bool:
    """Submit what is missing and not queued, and say how to watch, cancel and resume it; whether anything is missing.

    Raises:
        Mistake: Slurm refuses a job, in its own words; nothing is left submitted.
        Unfinished: Slurm does not answer.
    """
    sweep = folder(config)
    cells = plan.required(sweep)
    left, waiting = slurm.missing(sweep, cells)
    if not left and not waiting:
        return False
    if not left:
        print(f"slurm: all {len(waiting)} missing tasks are queued or run, nothing to submit; rllc status shows them")
        return True
    version.record(sweep)
    if warning := limit.warning(left, launch, _rates(config, launch, cells)):
        print(f"rllc: {warning}", file=sys.stderr)
    stages = [stage for stage in after.STAGES if stage in wanted]
    asked = dataclasses.replace(config, root=str(Path(config.root).resolve()), stages=stages)
    shown = config.track.kind != "none" and launch.track
    beside = slurm.Beside(
        after=resolve.text(asked) if launch.gather and stages else "",
        track=following.command(sweep, config.track)[2:] if shown else (),
    )
    done = slurm.submit(sweep, left, launch, waiting=waiting, beside=beside)
    print(slurm.describe(done, words=_words(config), again=f"{sys.argv[0]} {shlex.join(sys.argv[1:])}"))
    return True


def follow(config: Config) -> int:
    """Wait for all jobs of the sweep; the exit code, 1 where a result is missing or diverged."""
    sweep = folder(config)
    wait(sweep, {cell.task.key for cell in plan.required(sweep)})
    return after.verdict(sweep, config)


def rehearse(config: Config, launch: Slurm, cells: Sequence[Cell], rates: Mapping[Kind, Rate]) -> str:
    """The script and what it would do, told before anything is submitted."""
    sweep = folder(config)
    text = script.array(launch, sweep, submission.following(sweep))
    told = cost.estimate(cells, rates, cost.done(sweep))
    elements = min(launch.shards, told.tasks - told.done)
    arrays = len(slurm.arrays(elements, launch.max_array or queue.settings().max_array))
    running = "as many at once as Slurm lets" if launch.running is None else f"{launch.running} at once"
    lines = [
        text,
        f"slurm: {elements} shards in {arrays} array{'s' * (arrays > 1)}, {running}; {slurm.rehearse(text)}",
        *filter(None, [limit.warning(cells, launch, rates)]),
        f"sweep: {told.describe(size.workers(launch))}",
    ]
    return "\n".join(lines)


def _rates(config: Config, launch: Slurm, cells: Sequence[Cell]) -> Mapping[Kind, Rate]:
    """What tasks of this sweep took, else what a probe of this machine says; nothing without a time limit."""
    sweep = folder(config)
    if launch.time is None:
        return {}
    if known := limit.measured(sweep, cells):
        return known
    if config.module is not None:
        return {}
    pool = max(dataset.pool for dataset in config.data.values())
    model, threads = runs.model(config), size.threads(launch)
    return probe.rates(cells, root=Path(config.root), model=model, pool=pool, threads=threads)


def _words(config: Config) -> list[str]:
    """The overrides that name a sweep."""
    return [f"name={config.name}", *([] if config.root == "." else [f"root={config.root}"])]

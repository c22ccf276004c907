"""The launch stage on Slurm, and a training there: submits what is missing, and waits for it where that is asked."""

import dataclasses
import shlex
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from rllc import after, cost, following, making, plan, probe, resolve, runs, version
from rllc.config import Config, Slurm
from rllc.cost import Kind, Rate
from rllc.derive import folder
from rllc.launch import limit, queue, script, size, slurm, submission, training
from rllc.launch.wait import wait
from rllc.plan import Cell
from rllc.train import done, finished

LATE = 30.0  # seconds: a shared folder shows what a node wrote only after a while


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
        print(f"slurm: {_all(len(waiting))} queued or run, nothing to submit; rllc status shows them")
        return True
    version.record(sweep)
    if warning := limit.warning(left, launch, _rates(config, launch, cells)):
        print(f"rllc: {warning}", file=sys.stderr)
    stages = [stage for stage in after.STAGES if stage in wanted]
    asked = dataclasses.replace(config, root=str(Path(config.root).resolve()), stages=stages)
    shown = config.track.kind != "none" and launch.track
    beside = slurm.Beside(
        after=resolve.text(asked) if launch.gather and stages else "",
        track=following.command(sweep, config.track) if shown else (),
    )
    before = slurm.alive(sweep)
    done = slurm.submit(sweep, left, launch, waiting=waiting, beside=beside)
    print(slurm.describe(done, before=before, words=_words(config), again=_again()))
    return True


def train(config: Config, launch: Slurm) -> int:
    """Make the text and tokenizer here, submit a job for each run that is neither trained nor queued; the exit code.

    Raises:
        Mistake: the text cannot be read or is too little, a run's folder holds another run, or Slurm refuses the job.
        Unfinished: Slurm does not answer.
    """
    slurm.check()
    making.prepare(config)
    paths = [] if config.elsewhere else [run.path.resolve() for run in runs.named(config)]
    left = [path for path in paths if not finished(path)]
    for path in left:
        if jobs := training.alive(path):
            print(f"slurm: {path.name}: job {' '.join(jobs)} is queued or runs, nothing to submit")
        else:
            new = training.submit(path, launch, processes=config.train.processes)
            print(training.describe(new, _again()))
    if not left:
        print(f"train: {', '.join(run.name for run in runs.named(config))}: nothing to do")
    if not launch.wait or not left:
        return 0
    return int(not training.wait(left, config.train.steps))


def rehearse_training(config: Config) -> str:
    """What `rllc train` would do, told before any text is made: the runs and steps, and on Slurm the script of each."""
    wanted, told = config.train, []
    left = [] if config.elsewhere else [run.path.resolve() for run in runs.named(config) if not finished(run.path)]
    for path in left:
        if isinstance(config.launch, Slurm):
            told.append(script.training(config.launch, path, submission.following(path), processes=wanted.processes))
        told.append(
            f"train: {path.name}: {wanted.steps - done(path):,} steps of {wanted.batch} rows of {config.model.n_ctx} "
            "tokens"
        )
    return "\n".join(told) or f"train: {', '.join(run.name for run in runs.named(config))}: nothing to do"


def follow(config: Config) -> int:
    """Wait for all jobs of the sweep; the worse of what the results and the job that gathers say.

    It is 1 where a result is missing or diverged. Ctrl-C ends the waiting with code 130, and no job.
    """
    sweep = folder(config)
    try:
        wait(sweep, {cell.task.key for cell in plan.required(sweep)})
    except KeyboardInterrupt:
        print("\nrllc: the jobs go on; rllc status shows them, and the same command waits again.", file=sys.stderr)
        sys.exit(130)
    return max(after.verdict(sweep), gathered(sweep))


def gathered(sweep: Path, *, late: float = LATE) -> int:
    """The exit code of the job of the last submission that gathered; 1, and said, where it left none.

    A shared folder may show what was written on a node some seconds `late`.
    """
    found = submission.found(sweep)
    if not found or (last := found[-1]).gather is None:
        return 0
    limit = time.monotonic() + late
    while not (last.folder / after.CODE).exists():
        if time.monotonic() > limit:
            print(f"rllc: job {last.gather}, which gathers, was cut short; see {last.logs}.", file=sys.stderr)
            return 1
        time.sleep(min(late, 1.0))
    code = int((last.folder / after.CODE).read_text(encoding="utf-8"))
    if code:
        print(f"rllc: the job that gathers ended with code {code}; see {last.logs}.", file=sys.stderr)
    return code


def rehearse(config: Config, launch: Slurm, cells: Sequence[Cell], rates: Mapping[Kind, Rate]) -> str:
    """The script and what it would do, told before anything is submitted."""
    sweep = folder(config)
    text = script.array(launch, sweep, submission.following(sweep))
    rates, done = {**rates, **limit.measured(sweep, plan.read(sweep))}, cost.done(sweep)
    told, left = cost.estimate(cells, rates, done), [cell for cell in cells if cost.named(cell.task) not in done]
    workers = size.per_element(launch)
    elements = -(-min(launch.shards * workers, told.tasks - told.done) // workers)
    arrays = len(slurm.arrays(elements, launch.max_array or queue.settings().max_array))
    cut = f"{elements} shard{'s' * (elements != 1)} in {arrays} array{'s' * (arrays != 1)}"
    running = "as many at once as Slurm lets" if launch.running is None else f"{launch.running} at once"
    lines = [
        text,
        f"slurm: {cut}, {running}; {slurm.rehearse(text)}",
        *filter(None, [limit.warning(left, launch, rates)]),
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


def _all(count: int) -> str:
    return "the missing task is" if count == 1 else f"all {count} missing tasks are"


def _words(config: Config) -> list[str]:
    """The overrides that name a sweep."""
    return [f"name={config.name}", *([] if config.root == "." else [f"root={config.root}"])]


def _again() -> str:
    """The command that was typed."""
    return f"{sys.argv[0]} {shlex.join(sys.argv[1:])}"

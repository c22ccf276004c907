"""What follows the chains: gather, cluster and report; also as the job that Slurm starts when an array has ended.

That job runs as `python -m rllc.after SUBMISSION` and reads what was asked in the submission's config.yaml. Exit codes:
0 all done, 1 something failed, diverged or is missing, 2 the configuration cannot be carried out.
"""

import shutil
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rllc import atomic, closing, following, plan, resolve, status
from rllc.config import Config, Stage
from rllc.derive import cluster, draw, folder, gather_results
from rllc.mistake import Mistake

STAGES: tuple[Stage, ...] = ("gather", "cluster", "report")
CODE = "gather.code"  # in the folder of the submission
PATIENCE = 600.0  # seconds for whoever holds the sweep, as the next submission


def finish(config: Config, wanted: Collection[str], seconds: dict[str, float], *, code: int = 0) -> int:
    """Do those of the stages that are wanted, in order, and note their seconds; the highest exit code.

    Where `code` tells of holes, what cannot be made of curves with holes is left out, and said; so it is where a run
    was measured at one step only.
    """
    if "gather" in wanted:
        with timed(seconds, "gather"):
            code = max(code, gather_results(config))
    if "cluster" in wanted:
        code = max(code, int(_without_curves(folder(config))))
        with timed(seconds, "cluster"), _holes_are_told(code, folder(config) / "clusters"):
            cluster(config)
    if "report" in wanted:
        with timed(seconds, "report"), _holes_are_told(code, folder(config) / "report"):
            draw(config, seconds)
    return code


def verdict(sweep: Path) -> int:
    """1 where a result is missing or diverged, said in a few lines; else 0."""
    found = status.status(sweep)
    if found.whole:
        return 0
    print(status.describe(found, sweep, workers=0), file=sys.stderr)
    return 1


def _without_curves(sweep: Path) -> bool:
    """Whether a run of the plan has one step only, of which no curve can be made."""
    steps: dict[str, set[int]] = {}
    for cell in plan.read(sweep):
        steps.setdefault(cell.task.run, set()).add(cell.task.step)
    return any(len(found) == 1 for found in steps.values())


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Note how long a stage takes."""
    began = time.monotonic()
    yield
    seconds[stage] = time.monotonic() - began


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


def job(submission: Path) -> int:
    """What the job does: the stages that were asked for, then what W&B is still to show."""
    import yaml

    config = resolve.config(yaml.safe_load((submission / "config.yaml").read_text(encoding="utf-8")))
    sweep = folder(config)
    with _owner(sweep):
        code = finish(config, config.stages or STAGES, {}, code=verdict(sweep))
    if text := closing.summary(sweep):
        print(text)
    if config.track.kind != "none":
        following.follow(sweep, config.track, working=lambda: False)
    return code


@contextmanager
def _owner(sweep: Path) -> Iterator[None]:
    """Hold the sweep, after waiting for whoever holds it."""
    limit = time.monotonic() + PATIENCE
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(atomic.owner(sweep, "name"))
                break
            except Mistake:  # of several that waited for the same end one is first
                if not atomic.owned(sweep) or time.monotonic() > limit:
                    raise
            time.sleep(1.0)
        yield


def main() -> int:
    """Run the job, and leave its exit code where the command that waits for it looks."""
    submission = Path(sys.argv[1])
    (submission / CODE).unlink(missing_ok=True)  # of a start that was requeued
    code = 1
    try:
        code = job(submission)
    except Mistake as mistake:
        print(f"rllc: {mistake}", file=sys.stderr)
        code = 2
    finally:
        atomic.write_text(submission / CODE, f"{code}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())

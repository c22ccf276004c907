"""Submits the training of a run to Slurm: one job, whose tasks share each batch; and waits for it."""

import time
from collections.abc import Sequence
from pathlib import Path

from rllc import progress, train
from rllc.config import Slurm
from rllc.launch import queue, script, slurm, snapshot, submission
from rllc.launch.submission import Submission
from rllc.mistake import Unfinished

ASK_SECONDS = 10.0  # the controller serves everybody


def alive(run: Path) -> list[str]:
    """Ids of the jobs that train a run and are queued or run.

    Raises:
        Unfinished: it was submitted before, and squeue does not answer.
    """
    if not submission.found(run):
        return []
    queued = queue.jobs()
    if queued is None:
        raise Unfinished("squeue does not answer, so nobody knows what is still queued; run the same command later")
    return queue.jobs_of(run, queued, queue.settings().cluster)


def submit(run: Path, launch: Slurm, *, processes: int | None) -> Submission:
    """Submit the training of a run that was prepared; `processes` are those of a node, null for one for each GPU.

    Raises:
        Mistake: Slurm refuses the job; its own words are given.
    """
    folder = submission.following(run)
    logs = script.logs(launch, folder)
    logs.mkdir(parents=True, exist_ok=True)
    if launch.snapshot:
        snapshot.take(folder / "code")
    job = slurm.written(folder / "train.sbatch", script.training(launch, run, folder, processes=processes))
    done = Submission(folder, [job], [0], 1, 1, queue.settings().cluster, str(logs))
    submission.write(done)
    return done


def describe(done: Submission, again: str) -> str:
    """What a person needs to know: id, log, and how to cancel and go on."""
    run = done.folder.parent.parent
    return "\n".join(
        (
            f"slurm: the training of {run.name}: job {done.jobs[0]}",
            f"logs      {done.logs}",
            f"script    {done.folder / 'train.sbatch'}",
            f"watch     tail -f {run / 'metrics.jsonl'}    or squeue -j {done.jobs[0]}",
            f"cancel    scancel {done.jobs[0]}",
            f"resume    {again}",
        )
    )


def wait(runs: Sequence[Path], steps: int) -> bool:
    """Wait, with a bar, until no job trains one of the runs; whether all are trained."""
    asked, jobs = 0.0, True
    with progress.bar("slurm, train") as show:
        while jobs:
            show(sum(train.done(run) for run in runs), len(runs) * steps)
            if time.monotonic() - asked >= ASK_SECONDS:
                asked = time.monotonic()
                jobs = any(alive(run) for run in runs)
            time.sleep(min(1.0, ASK_SECONDS))
        show(sum(train.done(run) for run in runs), len(runs) * steps)
    return all(train.finished(run) for run in runs)

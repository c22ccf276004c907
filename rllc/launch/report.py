"""What the queue knows of a sweep, for `rllc status`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rllc import store
from rllc.launch import queue, submission
from rllc.launch.queue import Job
from rllc.launch.submission import Submission

WAITING = ("JobHeldUser", "JobHeldAdmin", "DependencyNeverSatisfied")  # reasons that somebody has to do something about


@dataclass(frozen=True)
class Report:
    """What the queue knows of a sweep: how many workers run, and lines for a person."""

    workers: int
    lines: list[str]


def look(sweep: Path, missing: int) -> Report:
    """The elements that run and wait, or how those ended where something is missing; empty without Slurm.

    Squeue is asked only where something was submitted and is not done, sacct only where nothing is queued any more.
    """
    submissions = submission.found(sweep)
    if not submissions or not missing:
        return Report(0, [])
    queued = queue.jobs()
    if queued is None:
        return Report(0, ["slurm: squeue does not answer; what is said above is from the files"])
    live = queue.live(sweep, queued, queue.settings().cluster)
    if not live:
        return Report(0, _over(submissions[-1]))
    running = [(one, n) for one, alive in live for n, job in alive.items() if job.state == "RUNNING"]
    workers = sum(len(submission.files(one, n)) for one, n in running)
    held = _held([job for _, alive in live for job in alive.values()])
    return Report(workers, [_alive(live), *held, *_uncovered(sweep, live, missing)])


def _alive(live: Sequence[tuple[Submission, dict[int, Job]]]) -> str:
    states = Counter(job.state for _, alive in live for job in alive.values())
    said = ", ".join(f"{count} {state.lower()}" for state, count in states.most_common())
    jobs = [job for one, _ in live for job in one.jobs]
    return f"slurm: element{'s' * (states.total() != 1)} {said} (job{'s' * (len(jobs) != 1)} {', '.join(jobs)})"


def _held(jobs: Sequence[Job]) -> list[str]:
    held = [job for job in jobs if job.reason in WAITING or "held" in job.reason.lower()]
    names = " ".join(f"{job.job}_{job.index}" for job in held[:20])
    return [f"slurm: {len(held)} {'is' if len(held) == 1 else 'are'} held: scontrol release {names}"] if held else []


def _uncovered(sweep: Path, live: Sequence[tuple[Submission, dict[int, Job]]], missing: int) -> list[str]:
    inside = {cell.task.key for one, alive in live for cell in submission.cells(one, alive)}
    rest = missing - len(inside - store.present(sweep, inside))
    verb, them = ("is", "it") if rest == 1 else ("are", "them")
    said = f"slurm: {rest} of the missing tasks {verb} in none of them; the same rllc sweep submits {them}"
    return [said] if rest > 0 else []


def _over(last: Submission) -> list[str]:
    ended = queue.ended(last)
    said = f" ({', '.join(f'{count} {state}' for state, count in sorted(ended.items()))})" if ended else ""
    lines = [f"slurm: no element of this sweep is queued or runs{said}; the same rllc sweep submits what is missing"]
    if not submission.begun(last):
        lines.append(
            f"slurm: the jobs {', '.join(last.jobs)} left no trace in {last.folder}; root= must be a folder that all "
            "nodes see"
        )
    return lines

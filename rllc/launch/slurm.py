"""Submits what is missing of a sweep to Slurm: arrays whose elements have a shard each, and the jobs beside them."""

import dataclasses
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from rllc import atomic, shards, store
from rllc.config import Slurm
from rllc.launch import queue, script, snapshot, submission
from rllc.launch.size import per_element
from rllc.launch.submission import Submission
from rllc.mistake import Mistake, Unfinished
from rllc.plan import Cell


@dataclass(frozen=True)
class Beside:
    """What is to run with the array.

    Attributes:
        after: the configuration by which a job gathers, clusters and reports when the array has ended; "" for none.
        track: module and words of the job that shows what is done; empty for none.
    """

    after: str = ""
    track: Sequence[str] = ()


def check() -> None:
    """Raise Mistake where nothing can be submitted from this machine."""
    if shutil.which("sbatch") is None:
        raise Mistake("launch: 'slurm' needs sbatch, which is not on PATH here; launch=local runs on this machine.")


def missing(sweep: Path, cells: Sequence[Cell]) -> tuple[list[Cell], set[str]]:
    """The cells that have no result and are in no element that is queued or runs, and the keys that are in one.

    Raises:
        Unfinished: something was submitted before, and squeue does not answer.
    """
    waiting: set[str] = set()
    if submission.found(sweep):
        queued = queue.jobs()
        if queued is None:
            raise Unfinished("squeue does not answer, so nobody knows what is still queued; run the same command later")
        for one, alive in queue.live(sweep, queued, queue.settings().cluster):
            waiting |= {cell.task.key for cell in submission.cells(one, alive)}
    done = store.keys(sweep)
    waiting -= done
    return [cell for cell in cells if cell.task.key not in done | waiting], waiting


def submit(sweep: Path, cells: Sequence[Cell], launch: Slurm, *, waiting: set[str], beside: Beside) -> Submission:
    """Submit these cells; `waiting` are keys of those that were submitted before and are not done.

    All or nothing: where Slurm refuses one of the jobs, those before it are cancelled.

    Raises:
        Mistake: Slurm refuses a job; its own words are given.
    """
    check()
    site = queue.settings()
    folder = submission.following(sweep)
    workers = per_element(launch)
    store.clear_errors(sweep, kept=waiting)
    count = submission.write_shards(folder, shards.cut(cells, launch.shards * workers), workers)
    place = script.logs(launch, folder)
    place.mkdir(parents=True, exist_ok=True)
    if launch.snapshot:
        snapshot.take(folder / "code")
    atomic.write_text(folder / "array.sbatch", script.array(launch, sweep, folder))
    offsets = arrays(count, launch.max_array or site.max_array)
    jobs: list[str] = []
    try:
        for start, stop, running in zip(offsets, [*offsets[1:], count], _caps(launch, len(offsets)), strict=True):
            jobs.append(
                _sbatch(folder / "array.sbatch", str(start), options=[f"--array=0-{stop - start - 1}{running}"])
            )
        done = Submission(folder, list(jobs), offsets, count, len(cells), site.cluster, str(place))
        if beside.after:
            atomic.write_text(folder / "config.yaml", beside.after)
            jobs.append(written(folder / "gather.sbatch", script.after(launch, sweep, folder, done.jobs)))
            done = dataclasses.replace(done, gather=jobs[-1])
        if beside.track:
            module, *words = beside.track
            jobs.append(written(folder / "track.sbatch", script.beside(launch, sweep, folder, module, words)))
            done = dataclasses.replace(done, track=jobs[-1])
        submission.write(done)
    except BaseException:
        _cancel(jobs)
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return done


def arrays(count: int, most: int) -> list[int]:
    """The first element of each array: as few arrays as `most` elements allow, about equally long."""
    number = -(-count // most)
    return [place * count // number for place in range(number)]


def rehearse(text: str) -> str:
    """What Slurm would say of a script, in one line."""
    if shutil.which("sbatch") is None:
        return "sbatch is not on PATH here, so nobody can say whether the site takes this"
    done = _run(["sbatch", "--test-only", "--array=0-0"], text)
    return f"the site {'would take' if done.returncode == 0 else 'refuses'} this: {_words(done.stderr)}"


def alive(sweep: Path) -> list[str]:
    """Ids of the jobs of a sweep that are queued or run; none where squeue does not answer."""
    if not submission.found(sweep) or (queued := queue.jobs()) is None:
        return []
    return queue.jobs_of(sweep, queued, queue.settings().cluster)


def describe(done: Submission, *, before: Sequence[str], words: Sequence[str], again: str) -> str:
    """What a person needs to know: ids, logs, and how to watch, cancel and resume.

    Args:
        done: what was submitted now.
        before: ids of the sweep's jobs that were queued or ran by then.
        words: the overrides that name the sweep.
        again: the command that resumes.
    """
    jobs = [*before, *done.all_jobs()]
    beside = [f"{name} {job}" for name, job in (("gather", done.gather), ("track", done.track)) if job is not None]
    arrays = f"array{'s' * (len(done.jobs) > 1)} {' '.join(done.jobs)}"
    size = f"{_several(done.tasks, 'task')} in {_several(done.shards, 'shard')}"
    return "\n".join(
        (
            f"slurm: {size}: {', '.join([arrays, *beside])}",
            f"logs      {done.logs}",
            f"script    {done.folder / 'array.sbatch'}",
            f"watch     {shlex.join(['rllc', 'status', *words])}    or squeue -r -j {','.join(jobs)}",
            f"cancel    scancel {' '.join(jobs)}",
            f"resume    {again}",
        )
    )


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _caps(launch: Slurm, count: int) -> list[str]:
    """How many elements of each of `count` arrays run at once, as sbatch takes it; at least one."""
    if launch.running is None:
        return [""] * count
    edges = [place * launch.running // count for place in range(count + 1)]
    return [f"%{max(1, stop - start)}" for start, stop in pairwise(edges)]


def written(file: Path, text: str) -> str:
    """Write a script and submit it; the id of the job.

    Raises:
        Mistake: Slurm refuses it; its own words are given.
        Unfinished: Slurm does not answer.
    """
    atomic.write_text(file, text)
    return _sbatch(file)


def _sbatch(file: Path, *words: str, options: Sequence[str] = ()) -> str:
    """Submit a script; the id of the job."""
    done = _run(["sbatch", "--parsable", *options, str(file), *words])
    if done.returncode == 0:
        return done.stdout.strip().partition(";")[0]
    said = _words(done.stderr)
    if re.search(r"contact|timed out|slurmctld|Connection refused", said):
        raise Unfinished(f"sbatch does not get through ({said}); run the same command later")
    raise Mistake(f"launch: Slurm refuses {file.name}: {said}; nothing is submitted.")


def _cancel(jobs: Sequence[str]) -> None:
    if jobs:
        _run(["scancel", *jobs])


def _run(words: Sequence[str], text: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words, input=text, capture_output=True, text=True, check=False, env=queue.environment()
    )  # fmt: skip


def _words(said: str) -> str:
    """Slurm's own words on one line."""
    lines = [line.removeprefix("sbatch: ").removeprefix("error: ").strip() for line in said.splitlines()]
    return "; ".join(line.rstrip(".") for line in lines if line) or "no reason given"

"""What Slurm says when it is asked: its settings, the jobs that are queued or run, and how others ended."""

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rllc.launch import submission
from rllc.launch.submission import Submission

MAX_ARRAY = 1001  # what MaxArraySize is where nobody changed it
PATIENCE = 20.0  # seconds that the controller may take
BRIEF = 5.0  # and the accounting, which is asked last and often is not there


@dataclass(frozen=True)
class Job:
    """An element of an array, or a job that is none (index None), that is queued or runs."""

    job: str
    index: int | None
    state: str
    reason: str


@dataclass(frozen=True)
class Settings:
    """Of the Slurm that answers: its name and the most elements of an array."""

    cluster: str
    max_array: int


def environment() -> dict[str, str]:
    """What Slurm's commands are started with: nothing of a job that this process may itself be part of."""
    kept = ("SLURM_CONF", "SLURM_CLUSTERS")
    return {name: value for name, value in os.environ.items() if not name.startswith("SLURM_") or name in kept}


def settings() -> Settings:
    """Ask the controller; the defaults of a Slurm where it does not answer."""
    told = _ask(["scontrol", "show", "config"], PATIENCE) or ""
    found = dict(re.findall(r"^(ClusterName|MaxArraySize)\s*=\s*(\S+)", told, re.MULTILINE))
    return Settings(found.get("ClusterName", ""), int(found.get("MaxArraySize", MAX_ARRAY)))


def jobs() -> list[Job] | None:
    """Everything of this user that is queued or runs; None where squeue does not answer."""
    told = _ask(["squeue", "-h", "-r", f"--user={os.getuid()}", "-o", "%F|%K|%T|%r"], PATIENCE)
    if told is None:
        return None
    fields = [line.split("|") for line in told.splitlines() if line.count("|") == 3]
    return [Job(job, int(index) if index.isdecimal() else None, *rest) for job, index, *rest in fields]


def elements(one: Submission, queued: Sequence[Job]) -> dict[int, Job]:
    """The elements of a submission that are queued or run."""
    found = {}
    for job in queued:
        element = None if job.index is None else one.element(job.job, job.index)
        if element is not None:
            found[element] = job
    return found


def live(sweep: Path, queued: Sequence[Job], cluster: str) -> list[tuple[Submission, dict[int, Job]]]:
    """The submissions of a sweep with elements that are queued or run, and those."""
    found = [(one, elements(one, queued)) for one in _ours(sweep, cluster)]
    return [(one, alive) for one, alive in found if alive]


def jobs_of(sweep: Path, queued: Sequence[Job], cluster: str) -> list[str]:
    """Ids of all jobs of a sweep, the dependent ones too, that are queued or run, in the order of submission."""
    alive = {job.job for job in queued}
    return [job for one in _ours(sweep, cluster) for job in one.all_jobs() if job in alive]


def _ours(sweep: Path, cluster: str) -> list[Submission]:
    """The submissions of a sweep to this cluster, whose numbers of jobs are its own; an unknown one ("") may be it."""
    return [one for one in submission.found(sweep) if "" in (one.cluster, cluster) or one.cluster == cluster]


def ended(one: Submission) -> Mapping[str, int]:
    """How many elements of a submission ended in which state, by the accounting; empty where it does not answer."""
    told = _ask(["sacct", "-X", "-n", "-P", "-j", ",".join(one.jobs), "-o", "State"], BRIEF) if one.jobs else None
    count: dict[str, int] = defaultdict(int)
    for line in (told or "").splitlines():
        count[line.split()[0] if line.strip() else "UNKNOWN"] += 1
    return count


def _ask(words: Sequence[str], seconds: float) -> str | None:
    try:
        answer = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=seconds, env=environment(),
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 else None

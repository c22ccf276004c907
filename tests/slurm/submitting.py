"""The sweep of a drill on a cluster: submitting it, what was submitted, and that nothing was lost or counted twice."""

import json
from typing import Any

import drill
from cluster import Cluster
from tiny import Job, same, until

from rllc import store


def submit(job: Job, *more: str, **changes: object) -> str:
    """Submit what is missing; what the command says."""
    done = job.do("sweep", *more, **changes)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def submissions(job: Job) -> list[dict[str, Any]]:
    """What was submitted so far."""
    return [json.loads(file.read_text()) for file in sorted(job.sweep.glob("slurm/*/submission.json"))]


def arrays(job: Job) -> list[str]:
    """The array jobs of all submissions."""
    return [array for submission in submissions(job) for array in submission["jobs"]]


def everything(job: Job) -> list[str]:
    """All jobs, those that gather among them."""
    return arrays(job) + [submission["gather"] for submission in submissions(job) if submission["gather"]]


def logs(job: Job) -> str:
    """What all elements wrote."""
    return "\n".join(file.read_text() for file in sorted(job.sweep.glob("slurm/*/logs/*.out")))


def held(job: Job, task: str, times: int = 1) -> drill.Start:
    """Wait until a task that is ordered to hold has been started so often; the last start."""
    until(lambda: len(drill.starts(job, task)) >= times, every=0.1)
    return drill.starts(job, task)[-1]


def outcomes(cluster: Cluster, job: Job) -> list[str]:
    """What sacct says of all elements, sorted, once it has heard of every end: "COMPLETED 0:0"."""
    until(
        lambda: all(state not in ("RUNNING", "PENDING") for state, _ in cluster.ended(*arrays(job)).values()), every=0.5
    )
    return sorted(f"{state} {code}" for state, code in cluster.ended(*arrays(job)).values())


def whole(job: Job, undisturbed: Job) -> None:
    """Check that the gathered sweep is the undisturbed one, each task counted once, and that nothing lies about."""
    same(job, undisturbed)
    lines = [line for file in job.sweep.glob("index/*.jsonl") for line in file.read_text().splitlines()]
    assert {json.loads(line)["key"] for line in lines} == store.keys(job.sweep)
    assert not list(job.sweep.rglob("*.tmp"))
    assert not list(job.root.rglob("owner.json"))
    status = job.do("status")
    assert status.returncode == 0, status.stdout
    assert f"{drill.TASKS} of {drill.TASKS} tasks done, 0 missing, 0 failed" in status.stdout

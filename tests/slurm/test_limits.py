"""Time, precedence, memory and disk that run out, and tasks that cannot be measured."""

import subprocess
from collections.abc import Iterator

import drill
import pytest
from cluster import Cluster
from submitting import arrays, everything, held, logs, outcomes, submit, whole
from tiny import Job, mount, until

from rllc import store

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def test_time_that_runs_out(cluster: Cluster, job: Job, undisturbed: Job) -> None:
    """The worker is told 20 s before (Slurm may be 30 s early), ends its task and goes on in another start."""
    limit = {"launch.shards": 1, "launch.time": "00:01:00", "launch.signal_seconds": 20}
    order = drill.slow(job, 0.4)
    submit(job, **limit)
    (array,) = arrays(job)
    until(lambda: cluster.state(f"{array}_0") == "RUNNING", every=0.3)
    until(lambda: cluster.state(f"{array}_0") == "PENDING", every=0.3)
    done = len(store.keys(job.sweep))
    assert 0 < done < drill.TASKS
    order.unlink()
    cluster.finish(*everything(job))
    whole(job, undisturbed)
    assert set(drill.begun(job).values()) == {1}
    assert outcomes(cluster, job) == ["COMPLETED 0:0"]


def preempted(cluster: Cluster, job: Job, undisturbed: Job) -> None:
    """Let a job of precedence take the node of a task that does not end; Slurm lets the element run again."""
    order = drill.order(job, "30-near-first", "hold")
    submit(job)
    start = held(job, "30-near-first")
    (array,) = arrays(job)
    other = cluster.ask("sbatch", "--parsable", "-p", "high", "-w", start.node, "--exclusive", "-o", "/dev/null",
                        "--wrap", "sleep 5").strip()  # fmt: skip
    until(lambda: cluster.state(f"{array}_1") == "PENDING", seconds=60, every=0.3)
    order.unlink()
    cluster.finish(*everything(job), other)
    whole(job, undisturbed)
    assert len(drill.starts(job, "30-near-first")) == 2


def test_a_job_of_precedence(cluster: Cluster, job: Job, undisturbed: Job) -> None:
    """The element is warned by the signal of the time limit."""
    preempted(cluster, job, undisturbed)
    assert outcomes(cluster, job) == ["COMPLETED 0:0"] * 2


def test_a_job_of_precedence_without_a_warning(bare: Cluster, job: Job, undisturbed: Job) -> None:
    """The workers are told to stop at once, as by scancel."""
    preempted(bare, job, undisturbed)


KILLED = "begun 2 times without a result: its worker was killed each time (out of memory? launch.mem asks for more)"


@pytest.mark.parametrize(
    ("what", "starts", "reason"),
    [("raise", 1, "ArithmeticError: 10-near-second is poisoned"), ("eat", 2, KILLED)],
)
def test_a_task_that_cannot_be_measured(
    what: str, starts: int, reason: str, cluster: Cluster, job: Job, undisturbed: Job
) -> None:
    """It raises, or takes more memory than there is: it is named, and all others are done."""
    order = drill.order(job, "10-near-second", what)
    submit(job, **{"launch.mem": "600M", "launch.attempts": 2})
    cluster.finish(*everything(job))
    assert len(store.keys(job.sweep)) == drill.TASKS - 1
    status = job.do("status")
    assert status.returncode == 1
    assert "0 missing, 1 failed" in status.stdout
    assert f"failed: llc of second on near at step 10 of states, seed 0: {reason}\n" in status.stdout
    assert drill.begun(job) == {task: starts if task == "10-near-second" else 1 for task in drill.begun(job)}
    assert outcomes(cluster, job) == ["COMPLETED 0:0", "FAILED 1:0"]
    if what == "eat":
        steps = cluster.ask("sacct", "-n", "-P", "-j", arrays(job)[0], "-o", "State")
        assert "OUT_OF_MEMORY" in steps or "CANCELLED" in steps  # the latter where there are no cgroups
    order.unlink()
    submit(job)
    cluster.finish(*everything(job))
    whole(job, undisturbed)


@pytest.fixture
def full(job: Job) -> Iterator[Job]:
    """The sweep, with room for a few of its results."""
    mount(job.sweep / "results", "-o", "size=48k")
    yield job
    subprocess.run(["umount", str(job.sweep / "results")], check=True)


def test_a_full_disk(cluster: Cluster, full: Job, undisturbed: Job) -> None:
    submit(full)
    cluster.finish(*everything(full))
    assert 0 < len(store.keys(full.sweep)) < drill.TASKS
    assert store.errors(full.sweep) == {}  # no task is to blame
    assert "No space left on device" in logs(full)
    assert "Traceback" not in logs(full)
    assert "FAILED 1:0" in outcomes(cluster, full)
    subprocess.run(["mount", "-o", "remount,size=64m", str(full.sweep / "results")], check=True)
    submit(full)
    cluster.finish(*everything(full))
    whole(full, undisturbed)

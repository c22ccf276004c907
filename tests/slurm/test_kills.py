"""Who is killed or cancelled loses at most the task in hand, and what was cancelled stays so."""

import os
import signal
import time

import drill
import pytest
from cluster import Cluster
from submitting import arrays, everything, held, outcomes, submissions, submit, whole
from tiny import Job, until

from rllc import store

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def test_a_sweep_to_its_report(cluster: Cluster, job: Job, undisturbed: Job) -> None:
    """Undisturbed: one start a task, every stage done by the dependent job."""
    said = submit(job, "stages=null", "cluster.methods=[kmeans]", "cluster.scalings=[standardize]",
                  "cluster.k_range=[2]", "cluster.null_draws=1", "cluster.n_init=1")  # fmt: skip
    assert all(array in said for array in arrays(job))
    cluster.finish(*everything(job))
    whole(job, undisturbed)
    assert set(drill.begun(job).values()) == {1}
    assert len(drill.begun(job)) == drill.TASKS
    assert outcomes(cluster, job) == ["COMPLETED 0:0"] * 2
    assert (job.sweep / "report" / "index.html").exists()


def test_a_killed_worker(cluster: Cluster, job: Job, undisturbed: Job) -> None:
    order = drill.order(job, "10-near-second", "hold")
    submit(job)
    os.kill(held(job, "10-near-second").pid, signal.SIGKILL)
    order.unlink()
    cluster.finish(*everything(job))
    whole(job, undisturbed)
    assert {task: times for task, times in drill.begun(job).items() if times > 1} == {"10-near-second": 2}
    assert outcomes(cluster, job) == ["COMPLETED 0:0"] * 2


def test_what_is_cancelled_stays_cancelled(cluster: Cluster, job: Job, undisturbed: Job) -> None:
    """First one element of two, then, of what was submitted again, all."""
    first, second = drill.order(job, "0-near-second", "hold"), drill.order(job, "30-near-second", "hold")
    submit(job)
    held(job, "0-near-second")
    held(job, "30-near-second")
    (array,) = arrays(job)
    cluster.ask("scancel", f"{array}_0")
    until(lambda: not cluster.state(f"{array}_0"), every=0.3)
    second.unlink()
    cluster.finish(*everything(job))
    assert outcomes(cluster, job) == ["CANCELLED 0:0", "COMPLETED 0:0"]
    half = store.keys(job.sweep)
    assert len(half) == drill.TASKS // 2 + 4  # six tasks of step 0 come first, of which the fifth was in hand

    submit(job)
    assert submissions(job)[-1]["tasks"] == drill.TASKS - len(half)
    held(job, "0-near-second", 2)
    cluster.ask("scancel", *arrays(job))
    cluster.finish(*everything(job))
    time.sleep(3)  # a worker that came back would be there by now
    assert not cluster.queue(*everything(job))
    assert {state.split()[0] for state in outcomes(cluster, job)} == {"CANCELLED", "COMPLETED"}

    first.unlink()
    submit(job)
    cluster.finish(*everything(job))
    whole(job, undisturbed)

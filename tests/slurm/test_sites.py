"""What a site may or may not have, and submissions that meet."""

import drill
import pytest
from cluster import Cluster
from submitting import arrays, everything, held, submissions, submit, whole
from tiny import Job, ended

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def test_a_site_without_accounting_and_with_short_arrays(bare: Cluster, job: Job, undisturbed: Job) -> None:
    """Seven shards where an array has at most three elements."""
    order = drill.order(job, "0-far-first", "hold")
    submit(job, **{"launch.shards": 7})
    held(job, "0-far-first")
    status = job.do("status")
    assert (status.returncode, status.stderr) == (1, "")
    order.unlink()
    assert (len(arrays(job)), submissions(job)[0]["offsets"]) == (3, [0, 2, 4])
    bare.finish(*everything(job))
    whole(job, undisturbed)
    assert set(drill.begun(job).values()) == {1}


def test_two_submissions_at_once(cluster: Cluster, job: Job, undisturbed: Job) -> None:
    """One submits; the other is told so, or finds that all is queued."""
    one, other = job.start("sweep"), job.start("sweep")
    with ended(one), ended(other):
        said = [process.communicate(timeout=120)[1] for process in (one, other)]
    assert sorted((one.returncode, other.returncode)) in ([0, 0], [0, 2]), said
    assert sum(submission["tasks"] for submission in submissions(job)) == drill.TASKS
    cluster.finish(*everything(job))
    whole(job, undisturbed)
    assert set(drill.begun(job).values()) == {1}


def test_a_submission_while_another_runs(cluster: Cluster, job: Job, undisturbed: Job) -> None:
    """The same again submits nothing; a grown grid submits what is new."""
    order = drill.order(job, "0-near-second", "hold")
    submit(job, **{"grid.steps": "[0,10]"})
    held(job, "0-near-second")
    submit(job, **{"grid.steps": "[0,10]"})
    assert len(submissions(job)) == 1
    submit(job)
    assert [submission["tasks"] for submission in submissions(job)] == [12, 12]
    order.unlink()
    cluster.finish(*everything(job))
    whole(job, undisturbed)
    assert set(drill.begun(job).values()) == {1}


def test_each_worker_sees_its_own_device(cluster: Cluster, job: Job, undisturbed: Job) -> None:
    """Two elements on one node with two devices."""
    node = f"{cluster.settings['PREFIX']}1"
    orders = [drill.order(job, task, "hold") for task in ("0-far-first", "20-far-first")]
    submit(job, **{"launch.gpus": 1, "launch.nodelist": node})
    starts = [held(job, task) for task in ("0-far-first", "20-far-first")]
    assert sorted(start.devices for start in starts) == ["0", "1"]
    assert {start.node for start in starts} == {node}
    for order in orders:
        order.unlink()
    cluster.finish(*everything(job))
    whole(job, undisturbed)

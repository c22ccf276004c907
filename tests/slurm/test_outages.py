"""A node or the controller that goes away at once: Slurm starts elements again, and the numbers are the same."""

import time

import drill
import pytest
from cluster import Cluster
from submitting import arrays, everything, held, outcomes, submit, whole
from tiny import Job, until

from rllc import store

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def test_a_node_that_crashes(alone: Cluster, job: Job, undisturbed: Job) -> None:
    order = drill.order(job, "30-near-first", "hold")
    submit(job)
    start = held(job, "30-near-first")
    alone.crash(start.node)
    order.unlink()
    (array,) = arrays(job)
    until(lambda: alone.state(f"{array}_1") == "PENDING", seconds=60, every=0.3)
    alone.finish(*everything(job))
    whole(job, undisturbed)
    first, again = drill.starts(job, "30-near-first")
    assert (first, again.node != start.node) == (start, True)
    assert outcomes(alone, job) == ["COMPLETED 0:0"] * 2


def test_a_controller_that_is_killed(alone: Cluster, job: Job, undisturbed: Job) -> None:
    """One element ends while nobody hears of it; it may run again, and then finds nothing to do."""
    order = drill.order(job, "30-near-first", "hold")
    submit(job)
    held(job, "30-near-first")
    time.sleep(10)  # the controller saves its state every five seconds; what it was told since would be lost
    alone.kill_controller()
    order.unlink()
    until(lambda: len(store.keys(job.sweep)) == drill.TASKS, seconds=60, every=0.1)
    alone.start()
    alone.finish(*everything(job))
    whole(job, undisturbed)
    assert set(drill.begun(job).values()) == {1}
    assert outcomes(alone, job) == ["COMPLETED 0:0"] * 2

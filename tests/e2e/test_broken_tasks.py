"""A task that cannot be measured is named, and the others are done; the same command completes the sweep later."""

from pathlib import Path

import drill
import pytest
from tiny import Job, same

from rllc import store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """The sweep as it is when nothing happens to it; not to be changed."""
    job = drill.fresh(tmp_path_factory.mktemp("undisturbed"))
    done = job.do("sweep")
    assert done.returncode == 0, done.stderr
    return job


@pytest.mark.parametrize(("what", "starts"), [("raise", 1), ("die", 2)])
def test_a_task_that_cannot_be_measured(what: str, starts: int, tmp_path: Path, undisturbed: Job) -> None:
    """It raises, or ends its process as the system does when memory is short."""
    job = drill.fresh(tmp_path, **{"launch.workers": 2, "launch.attempts": 2})
    order = drill.order(job, "10-near-second", what)
    done = job.do("sweep")
    assert done.returncode == 1, done.stderr
    assert len(store.keys(job.sweep)) == drill.TASKS - 1
    assert len(store.errors(job.sweep)) == 1
    assert "llc of second on near at step 10 of states, seed 0" in done.stderr
    assert "Traceback" not in done.stderr
    assert drill.begun(job)["10-near-second"] == starts
    assert all(times == 1 for task, times in drill.begun(job).items() if task != "10-near-second")
    order.unlink()
    done = job.do("sweep")
    assert done.returncode == 0, done.stderr
    same(job, undisturbed)
    assert drill.begun(job)["10-near-second"] == starts + 1

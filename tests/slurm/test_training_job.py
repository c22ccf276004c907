"""A training by two tasks of a job: time that runs out, scancel, and the same command again."""

import dataclasses
import time

import pytest
from cluster import Cluster
from tiny import Job, elsewhere, until

from rllc import train
from rllc.launch import submission

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

LONG = {"train.processes": 2, "train.steps": 40000, "train.checkpoints.every": 10000}


@pytest.fixture
def job(fresh: Job) -> Job:
    """The tiny model, to be trained by two tasks of a job of a gigabyte."""
    return dataclasses.replace(fresh, defaults=elsewhere, options={"launch": "slurm", "launch.mem": "1G"})


def test_a_training_goes_on_after_its_time_and_after_scancel(cluster: Cluster, job: Job) -> None:
    limit = {"launch.time": "00:01:00", "launch.signal_seconds": 20}
    done = job.do("train", **LONG, **limit)
    assert done.returncode == 0, done.stdout + done.stderr
    (number,) = submission.found(job.run_folder)[0].jobs
    assert f"job {number} is queued or runs, nothing to submit" in job.do("train", **LONG, **limit).stdout
    until(lambda: train.done(job.run_folder) > 100, every=0.3)
    until(lambda: cluster.state(number) == "PENDING", every=0.3)
    before = train.done(job.run_folder)
    log = "".join(file.read_text() for file in job.run_folder.glob("slurm/*/logs/*.out"))
    assert log.count("time limit near; the training of") == 1
    assert "Traceback" not in log
    time.sleep(4)  # sooner Slurm refuses
    cluster.ask("scontrol", "update", f"JobId={number}", "StartTime=now")
    until(lambda: train.done(job.run_folder) > before, every=0.3)
    cluster.ask("scancel", number)
    until(lambda: cluster.ended(number)[number][0].startswith("CANCELLED"), every=0.3)
    assert (job.run_folder / "resume.safetensors").exists()
    assert not train.finished(job.run_folder)

"""A training as a Slurm job, with a Slurm that only writes down what it is asked; the script is run by hand."""

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest
from pretended import Site
from test_script import options, settings
from tiny import Job, elsewhere

from rllc import train
from rllc.launch import script, submission, training
from rllc.mistake import Unfinished


@pytest.fixture
def new(fresh: Job) -> Job:
    return dataclasses.replace(fresh, defaults=elsewhere)


def asked(*words: str, processes: int | None = None) -> list[str]:
    run = Path("/s/runs/demo-s0")
    return options(script.training(settings(*words), run, run / "slurm" / "001", processes=processes))


def test_a_process_for_each_gpu_and_the_options_of_the_site() -> None:
    words = ("launch.gpus=4", "launch.cpus=8", "launch.partition=gpu", "launch.time='8:00:00'")
    assert asked(*words, "launch.extra_sbatch=['--nodes=2']") == [
        "--job-name=rllc-demo-s0", "--partition=gpu", "--time=8:00:00", "--gpus-per-node=4", "--nodes=1",
        "--ntasks-per-node=4", "--cpus-per-task=8", "--signal=B:USR1@120", "--requeue",
        "--output=/s/runs/demo-s0/slurm/001/logs/%j.out", "--open-mode=append", "--nodes=2",
    ]  # fmt: skip
    assert "--ntasks-per-node=1" in asked()
    assert "--ntasks-per-node=2" in asked(processes=2)
    assert {"--ntasks-per-node=3", "--gres=gpu:a100:3"} <= set(asked("launch.gres=gpu:a100:3"))


def test_a_dry_run_tells_the_script_and_the_steps_and_makes_nothing(new: Job, site: Site) -> None:
    told = new.do("train", "launch=slurm", "launch.dry_run=true")
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("#!/bin/bash\n#SBATCH --job-name=rllc-tiny-s0\n")
    sentence = "train: tiny-s0: 20 steps of 4 rows of 16 tokens; nothing was started\n"
    assert told.stdout.endswith(sentence)
    assert new.do("train", "launch.dry_run=true").stdout == sentence
    assert not new.root.exists()
    assert not site.asked("sbatch")


@pytest.mark.slow
def test_the_job_trains_and_the_same_command_submits_it_once(new: Job, site: Site) -> None:
    done = new.do("train", "launch=slurm")
    assert done.returncode == 0, done.stderr
    assert "slurm: the training of tiny-s0: job 101\n" in done.stdout
    (found,) = submission.found(new.run_folder)
    assert (found.jobs, found.cluster) == (["101"], "fake")
    site.queue("101", state="PENDING")
    again = new.do("train", "launch=slurm")
    assert again.returncode == 0
    assert "slurm: tiny-s0: job 101 is queued or runs, nothing to submit" in again.stdout
    here = new.do("train")  # two trainings of one run would write the same files
    assert here.returncode == 1
    assert "tiny-s0 is trained by job 101, which is queued or runs; wait for it" in here.stderr
    (site.folder / "queue").rename(site.folder / "kept")
    with pytest.raises(Unfinished, match="squeue does not answer"):
        training.alive(new.run_folder)
    (site.folder / "kept").rename(site.folder / "queue")

    environment = os.environ | {"SLURM_JOB_ID": "101", "SLURM_JOB_NODELIST": "here"}
    ran = subprocess.run(
        ["bash", str(found.folder / "train.sbatch")], env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert train.finished(new.run_folder)
    assert len(site.asked("sbatch")) == 1
    site.queue()
    last = new.do("train", "launch=slurm")
    assert last.stdout == "train: tiny-s0: nothing to do\n"

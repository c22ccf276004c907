"""Whatever ends a sweep, what it has done stays, nothing of it goes on by itself, and the same command completes it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tiny import Job, alive, descendants, ended, mount, same, until

from rllc import plan, store

pytestmark = pytest.mark.slow

CHAINS = {"stages": "[train,plan,launch,gather]", "sampler.draws": 150, "launch.workers": 2, "grid.seeds": "[0,1]"}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, corpus: Path, trained_root: Path) -> Job:
    """The sweep as it is when nothing happens to it; not to be changed."""
    root = tmp_path_factory.mktemp("undisturbed") / "root"
    shutil.copytree(trained_root, root)
    job = Job(root, corpus, CHAINS)
    done = job.do("sweep")
    assert done.returncode == 0, done.stderr
    return job


@pytest.fixture
def chains(job: Job) -> Job:
    """The same sweep, not begun."""
    return Job(job.root, job.text, CHAINS)


def begun(job: Job, results: int = 3) -> "subprocess.Popen[str]":
    """Start the sweep and wait until a few results are there."""
    process = job.start("sweep")
    until(lambda: len(store.keys(job.sweep)) >= results or process.poll() is not None)
    return process


def measuring(process: "subprocess.Popen[str]") -> list[int]:
    """The processes of the workers of a sweep."""
    return [
        pid for pid in descendants(process.pid) if b"rllc.work" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]  # fmt: skip


def completes(job: Job, undisturbed: Job) -> None:
    """Check that the same command does the rest, and only that."""
    before = {path: path.stat().st_mtime_ns for path in job.sweep.glob("results/*/*.npz")}
    done = job.do("sweep")
    assert done.returncode == 0, done.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert not list(job.root.rglob("owner.json"))
    same(undisturbed, job)


def test_a_killed_worker_is_started_again(chains: Job, undisturbed: Job) -> None:
    process = begun(chains)
    with ended(process):
        workers = measuring(process)
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "rllc: a worker was killed by SIGKILL; started again with what is left." in err
    assert "Traceback" not in err
    same(chains, undisturbed)
    completes(chains, undisturbed)


def test_a_killed_parent(chains: Job, undisturbed: Job) -> None:
    process = begun(chains)
    with ended(process):
        workers = measuring(process)
        assert len(workers) == 2
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        until(lambda: not alive(workers), seconds=30)
    assert (chains.sweep / "owner.json").exists()
    assert len(store.keys(chains.sweep)) < len(plan.read(chains.sweep))
    completes(chains, undisturbed)


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_parent_leaves_no_worker(sign: signal.Signals, code: int, chains: Job, undisturbed: Job) -> None:
    process = begun(chains)
    with ended(process):
        workers = measuring(process)
        assert len(workers) == 2
        os.kill(process.pid, sign)
        _, err = process.communicate(timeout=30)
        assert alive(workers) == []
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert not (chains.sweep / "owner.json").exists()
    assert not list(chains.sweep.rglob("*.tmp"))
    assert len(store.keys(chains.sweep)) < len(plan.read(chains.sweep))
    completes(chains, undisturbed)


def test_kills_at_random_moments(chains: Job, undisturbed: Job) -> None:
    rng = np.random.default_rng(0)
    for _ in range(3):
        process = begun(chains, results=len(store.keys(chains.sweep)) + int(rng.integers(1, 12)))
        with ended(process):
            for pid in rng.permutation(descendants(process.pid)):
                os.kill(int(pid), signal.SIGKILL)
            os.kill(process.pid, signal.SIGKILL)
        for key in store.keys(chains.sweep):
            store.get(chains.sweep, key)
    completes(chains, undisturbed)


def test_a_parent_killed_while_it_trains(fresh: Job) -> None:
    endless = {"train.steps": 100_000, "train.checkpoints.every": 100_000, "stages": "[train]"}
    job = Job(fresh.root, fresh.text, endless)
    process = job.start("sweep")
    with ended(process):
        until(lambda: (job.run_folder / "metrics.jsonl").exists() and (job.run_folder / "metrics.jsonl").stat().st_size)
        trainings = descendants(process.pid)
        assert len(trainings) == 1
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        until(lambda: not alive(trainings), seconds=30)


def test_a_sweep_killed_while_it_trains_completes(fresh: Job, trained_root: Path) -> None:
    process = fresh.start("sweep", "stages=[train,plan]")
    with ended(process):
        until(lambda: (fresh.run_folder / "checkpoints").exists())
        os.kill(process.pid, signal.SIGSTOP)  # what is killed now cannot be seen ending
        for pid in [*descendants(process.pid), process.pid]:
            os.kill(pid, signal.SIGKILL)
    assert not (fresh.sweep / "plan.jsonl").exists()
    done = fresh.do("sweep", "stages=[train,plan]")
    assert done.returncode == 0, done.stderr
    checkpoints = sorted((trained_root / "runs" / "tiny-s0" / "checkpoints").iterdir())
    assert len(checkpoints) == 3
    for file in checkpoints:
        assert arrays(fresh.run_folder / "checkpoints" / file.name) == arrays(file)


def arrays(file: Path) -> bytes:
    content = file.read_bytes()
    return content[8 + int.from_bytes(content[:8], "little") :]


def test_of_two_sweeps_in_one_folder_one_runs(chains: Job, undisturbed: Job) -> None:
    first, second = chains.start("sweep"), chains.start("sweep")
    with ended(first), ended(second):
        said = {process.pid: process.communicate(timeout=300) for process in (first, second)}
    assert sorted((first.returncode, second.returncode)) == [0, 2]
    winner, loser = (first, second) if first.returncode == 0 else (second, first)
    err = said[loser.pid][1]
    assert err == (
        f"rllc: name: {chains.sweep} is in use by process {winner.pid} on {os.uname().nodename}; "
        f"wait for it, or remove {chains.sweep}/owner.json if that process is gone.\n"
    )
    same(undisturbed, chains)


def test_a_marker_of_a_dead_process_is_taken_over(job: Job) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    job.sweep.mkdir(parents=True)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    marker = {"host": os.uname().nodename, "boot": boot, "pid": process.pid, "started": "12345"}
    (job.sweep / "owner.json").write_text(json.dumps(marker))
    done = job.do("sweep", "stages=[plan]")
    assert done.returncode == 0, done.stderr
    assert not (job.sweep / "owner.json").exists()


@pytest.fixture
def small(chains: Job) -> Iterator[Job]:
    """The sweep with room for a part of its results only."""
    mount(chains.sweep / "results", "-o", "size=64k")
    yield chains
    subprocess.run(["umount", str(chains.sweep / "results")], check=True)


def test_a_full_disk_loses_the_task_in_hand_alone(small: Job, undisturbed: Job) -> None:
    done = small.do("sweep")
    assert done.returncode == 1
    assert "No space left on device; make room and run the same command again." in done.stderr
    assert "Traceback" not in done.stderr
    keys = store.keys(small.sweep)
    assert 0 < len(keys) < len(plan.read(small.sweep))
    for key in keys:
        store.get(small.sweep, key)
    assert store.errors(small.sweep) == {}
    assert not list(small.sweep.rglob("*.tmp"))
    subprocess.run(["mount", "-o", "remount,size=64m", str(small.sweep / "results")], check=True)
    completes(small, undisturbed)


@pytest.fixture
def sealed(fresh: Job) -> Iterator[Job]:
    """The tiny job in a folder that cannot be written."""
    mount(fresh.root, "-o", "ro")
    yield fresh
    subprocess.run(["umount", str(fresh.root)], check=True)


@pytest.mark.parametrize("verb", ["sweep", "train"])
def test_a_root_that_cannot_be_written(verb: str, sealed: Job) -> None:
    done = sealed.do(verb)
    assert done.returncode == 2
    assert done.stderr.startswith("rllc: ")
    assert done.stderr.count("\n") == 1
    assert "Read-only file system" in done.stderr

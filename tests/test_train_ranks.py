"""Several processes train one run as one process does, and go on after any of them is killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tiny import THREADS, until
from trained import OPTIONS, checkpoints, losses, make

from rllc import train
from rllc.mistake import Mistake
from rllc.train import ranks
from rllc.train.ranks import Rank

PLAIN = "from rllc.train import __main__; raise SystemExit(__main__.main())"
SAVING = f"from rllc.train import loop; loop.RESUME_SECONDS = 0.02; {PLAIN}"
DOUBLE = f"""
from rllc.models import decoder
init = decoder.init
decoder.init = lambda *which: {{name: array.double() for name, array in init(*which).items()}}
{PLAIN}
"""
SHARP = {"clip": 0.05, "weight_decay": 0.5, "batch": 5}  # clips at every step; two ranks have two rows and three


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Path]:
    """Make the folder of a run that is to be trained."""
    return lambda name, **changed: make(tmp_path / name, **changed)


def start(path: Path, count: int, code: str = PLAIN, words: Sequence[str] = ()) -> "list[subprocess.Popen[str]]":
    """The processes as srun starts them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "SLURM_NTASKS": str(count)}
    return [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), *words], stderr=subprocess.PIPE, text=True,
            env=os.environ | THREADS | place | {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)},
        )
        for rank in range(count)
    ]  # fmt: skip


def end(processes: "list[subprocess.Popen[str]]") -> list[tuple[int, str]]:
    """The exit code of each and what it said."""
    said = [process.communicate(timeout=120)[1] for process in processes]
    return [(process.returncode, text) for process, text in zip(processes, said, strict=True)]


def trained(path: Path, count: int, code: str = PLAIN) -> Path:
    assert end(start(path, count, code)) == [(0, "")] * count
    return path


def weights(path: Path) -> dict[str, Any]:
    """Every array of every checkpoint but the biases of keys: the loss does not depend on them, so that AdamW turns the
    rounding of their gradients, which are zero, into whole steps."""
    files = sorted((path / "checkpoints").iterdir())
    return {f"{f.name}/{key}": array for f in files for key, array in load_file(f).items() if not key.endswith("b_K")}


def curve(path: Path) -> list[float]:
    """The losses that it wrote down."""
    return [line["loss"] for line in losses(path)]


def farthest(one: Path, other: Path) -> float:
    """The largest distance between a weight of two runs, whose largest are of order 1."""
    own, others = weights(one), weights(other)
    assert own.keys() == others.keys()
    return max(float(np.abs(own[key] - others[key]).max()) for key in own)


@pytest.mark.parametrize(("batch", "count"), [(4, 1), (4, 2), (5, 2), (100, 8), (3, 3)])
def test_each_row_of_a_batch_is_of_one_rank(batch: int, count: int) -> None:
    shares = [range(batch)[ranks.share(Rank(index, count), batch)] for index in range(count)]
    assert [row for share in shares for row in share] == list(range(batch))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_more_processes_than_rows_are_refused() -> None:
    ranks.check(4, 4)
    with pytest.raises(
        Mistake, match=r"train.processes: 5 processes cannot share the 4 rows of train.batch; legal: 1 to 4."
    ):
        ranks.check(5, 4)


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, Rank(0, 1, 0)),
        ({"MASTER_ADDR": "a", "RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, Rank(3, 8, 1)),
        ({"MASTER_ADDR": "a", "SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1"}, Rank(3, 8, 1)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0"}, Rank(0, 1, 0)),  # a batch script's own shell
    ],
)
def test_the_place_of_a_process_is_what_started_it_says(environment: dict[str, str], rank: Rank) -> None:
    assert ranks.find(environment) == rank


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_several_processes_train_as_one_does(count: int, run: Callable[..., Path]) -> None:
    alone, shared = trained(run("alone", **SHARP), 1), trained(run("shared", **SHARP), count)
    assert [line["step"] for line in losses(shared)] == [0, 10, 12]
    assert curve(shared) == pytest.approx(curve(alone), rel=1e-6)
    assert farthest(alone, shared) < 1e-4  # of float32, through twelve steps that divide by the root of a variance
    assert sorted(file.name for file in shared.iterdir()) == sorted(file.name for file in alone.iterdir())


@pytest.mark.slow
def test_in_double_precision_two_processes_are_one(run: Callable[..., Path]) -> None:
    alone, shared = trained(run("alone", **SHARP), 1, DOUBLE), trained(run("shared", **SHARP), 2, DOUBLE)
    assert next(iter(weights(shared).values())).dtype == np.float64
    assert farthest(alone, shared) < 1e-12


@pytest.mark.slow
def test_a_run_whose_processes_are_killed_is_the_undisturbed_one_to_the_bit(run: Callable[..., Path]) -> None:
    """Three ranks, for the sum of two numbers does not depend on their order."""
    options = {**SHARP, "steps": 150}
    whole, broken = trained(run("whole", **options), 3), run("broken", **options)
    for victim in (1, 0):
        begun = train.done(broken)
        processes = start(broken, 3, SAVING)
        until(lambda begun=begun: train.done(broken) >= begun + 20)
        processes[victim].kill()
        ends, began = end(processes), time.monotonic()
        assert time.monotonic() - began < 20
        assert [code for code, _ in ends] == [-signal.SIGKILL if rank == victim else 1 for rank in range(3)]
        assert not any(text for _, text in ends)  # who started them tells it
        assert not train.finished(broken)
    trained(broken, 3, SAVING)
    assert checkpoints(broken) == checkpoints(whole)
    assert losses(broken) == losses(whole)


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_processes(run: Callable[..., Path]) -> None:
    alone, changed = trained(run("alone", **SHARP, steps=60), 1), run("changed", **SHARP, steps=60)
    (process,) = start(changed, 1, SAVING)
    until(lambda: train.done(changed) >= 20)
    process.send_signal(signal.SIGUSR1)
    assert end([process]) == [(75, "")]
    assert 0 < train.done(changed) < 60
    trained(changed, 2)
    assert curve(changed) == pytest.approx(curve(alone), rel=1e-6)


@pytest.mark.slow
def test_a_process_that_is_killed_ends_the_others_with_one_sentence(run: Callable[..., Path]) -> None:
    path = run("run", steps=3000)
    command = [sys.executable, "-m", "rllc.train", str(path), "--processes=2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | THREADS) as agent:
        until(lambda: train.done(path) >= 10)
        children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
        assert len(children) == 2
        os.kill(int(children[1]), signal.SIGKILL)
        began = time.monotonic()
        _, said = agent.communicate(timeout=60)
        assert time.monotonic() - began < 20
    assert agent.returncode == 1
    sentence = "process 2 of 2 was killed by SIGKILL, and the others were stopped; the same command goes on."
    assert said == f"rllc: {path}: {sentence}\n"
    assert not any(Path(f"/proc/{child}").exists() for child in children)


@pytest.mark.slow
def test_a_mistake_is_told_once_and_a_loss_that_is_not_finite_by_the_first(run: Callable[..., Path]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rllc.train", str(run("few")), f"--processes={OPTIONS.batch + 1}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    wild = {"lr": 1e30, "warmup": 0, "clip": 1e30, "checkpoints": {"every": 1, "log": 0}}
    path = run("wild", **wild)
    (first, said), (second, silent) = end(start(path, 2))
    assert (first, second, silent) == (1, 1, "")
    assert said == f"rllc: {path}: the training loss is not finite at step 1; lower train.lr\n"
    assert list(checkpoints(path)) == ["step_0000000.safetensors"]

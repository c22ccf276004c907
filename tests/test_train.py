import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import until

from rllc import train
from rllc.config import Model, Schedule, Train
from rllc.mistake import Mistake, Unfinished

MODEL = Model(n_layers=1, n_heads=2, d_model=8, d_head=4, n_ctx=8, d_vocab=300, positions="shortformer")
OPTIONS = Train(
    data="files", seeds=[0], steps=12, batch=4, lr=0.01, warmup=3, betas=[0.9, 0.98], weight_decay=0.05, clip=1.0,
    repeats=0.4, checkpoints=Schedule(every=5, log=0),
)  # fmt: skip


@pytest.mark.parametrize(
    ("every", "log", "steps", "saved"),
    [
        (5, 0, 12, [0, 5, 10, 12]),
        (100, 0, 12, [0, 12]),
        (4, 0, 12, [0, 4, 8, 12]),
        (8, 3, 16, [0, 1, 4, 8, 16]),
        (100, 5, 16, [0, 1, 2, 4, 8, 16]),
    ],
)
def test_saved_steps(every: int, log: int, steps: int, saved: list[int]) -> None:
    assert train.saved_steps(Schedule(every, log), steps) == saved


def test_the_rate_warms_up_and_stays() -> None:
    rates = [train.learning_rate(OPTIONS, step) / OPTIONS.lr for step in range(5)]
    assert rates == pytest.approx([1 / 3, 2 / 3, 1, 1, 1])


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Path]:
    """Make the folder of a run that is to be trained, on rows of random tokens."""

    def make(name: str = "run", **changed: Any) -> Path:
        path = tmp_path / name
        path.mkdir()
        rows = np.random.default_rng(0).integers(300, size=(50, 8), dtype=np.uint16)
        np.save(path / "rows.npy", rows)
        wanted = train.as_dict(MODEL, OPTIONS, 0)
        wanted["train"] |= changed
        train.prepare(path, {**wanted, "rows": "rows.npy"})
        return path

    return make


def checkpoints(path: Path) -> dict[str, tuple[Any, bytes]]:
    """What the header of each checkpoint says, and the bytes of its arrays."""
    found = {}
    for file in (path / "checkpoints").glob("step_*"):
        content = file.read_bytes()
        start = 8 + int.from_bytes(content[:8], "little")
        found[file.name] = json.loads(content[8:start]), content[start:]
    return found


def losses(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def test_a_run_is_trained_to_its_end_and_its_loss_falls(run: Callable[..., Path]) -> None:
    path = run(steps=40)
    assert not train.finished(path)
    assert train.done(path) == 0
    train.run(path)
    assert train.finished(path)
    assert sorted(checkpoints(path)) == [f"step_{step:07d}.safetensors" for step in range(0, 41, 5)]
    assert [line["step"] for line in losses(path)] == list(range(0, 41, 10))
    assert losses(path)[0]["loss"] == pytest.approx(np.log(300), abs=0.3)
    assert losses(path)[-1]["loss"] < losses(path)[0]["loss"] - 0.1
    assert train.done(path) == 40


def test_training_again_changes_nothing(run: Callable[..., Path]) -> None:
    path = run()
    train.run(path)
    before, lines = checkpoints(path), losses(path)
    train.run(path)
    assert checkpoints(path) == before
    assert losses(path) == lines


@pytest.mark.parametrize("stop", [0, 1, 5, 7, 12])
def test_a_resumed_run_is_the_undisturbed_one_to_the_bit(
    stop: int, run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, broken = run("whole"), run("broken")
    train.run(whole)
    monkeypatch.setattr(train, "RESUME_SECONDS", -1.0)
    rate = train.learning_rate

    def dying(options: Train, step: int) -> float:
        if step == stop:
            raise InterruptedError
        return rate(options, step)

    if stop < OPTIONS.steps:
        monkeypatch.setattr(train, "learning_rate", dying)
        with pytest.raises(InterruptedError):
            train.run(broken)
        assert not train.finished(broken)
        monkeypatch.setattr(train, "learning_rate", rate)
    train.run(broken)
    assert checkpoints(broken) == checkpoints(whole)
    assert losses(broken) == losses(whole)


def test_a_torn_line_of_metrics_is_written_again(run: Callable[..., Path]) -> None:
    path = run()
    train.run(path)
    lines = losses(path)
    text = (path / "metrics.jsonl").read_text()
    (path / "metrics.jsonl").write_text(text[: len(text) // 2])
    (path / "resume.safetensors").unlink()
    train.run(path)
    assert losses(path) == lines


def test_a_loss_that_is_not_finite_leaves_no_checkpoint_of_it(run: Callable[..., Path]) -> None:
    path = run(lr=1e30, warmup=0, clip=1e30, checkpoints={"every": 1, "log": 0})
    with pytest.raises(Unfinished, match=r"the training loss is not finite at step 1; lower train.lr"):
        train.run(path)
    assert list(checkpoints(path)) == ["step_0000000.safetensors"]
    assert not train.finished(path)


def test_a_training_without_its_parent_stops(run: Callable[..., Path]) -> None:
    path = run()
    with pytest.raises(Unfinished, match="stopped at step 0, for process 1 that started it is gone"):
        train.run(path, parent=1)
    train.run(path, parent=os.getppid())
    assert train.finished(path)


def test_the_settings_of_a_run_cannot_change(run: Callable[..., Path]) -> None:
    path = run()
    wanted = {**train.as_dict(MODEL, OPTIONS, 0), "rows": "rows.npy"}
    train.prepare(path, wanted)
    wanted["train"]["betas"], wanted["seed"] = [0.9, 0.999], 1
    with pytest.raises(Mistake, match=r"train.betas \[0.9, 0.98\], now \[0.9, 0.999\]") as told:
        train.prepare(path, wanted)
    assert "seed 0, now 1" in str(told.value)


@pytest.mark.slow
def test_a_run_killed_at_random_moments_is_the_undisturbed_one_to_the_bit(run: Callable[..., Path]) -> None:
    whole, broken = run("whole", steps=200), run("broken", steps=200)
    # in a process of its own too: libraries that other tests load here may change how the processor rounds
    subprocess.run([sys.executable, "-m", "rllc.train", str(whole)], check=True)
    rng, kills = np.random.default_rng(1), 0
    code = "from rllc import train; train.RESUME_SECONDS = 0.02; raise SystemExit(train.main())"
    while not train.finished(broken):
        begun = train.done(broken)
        with subprocess.Popen([sys.executable, "-c", code, str(broken)]) as process:
            if kills < 3:
                until(lambda begun=begun, process=process: train.done(broken) > begun or process.poll() is not None)
                time.sleep(rng.uniform(0, 0.1))
                process.send_signal([signal.SIGKILL, signal.SIGTERM][kills % 2])
                kills += 1
        assert process.returncode in (0, -signal.SIGKILL, 143)
    assert kills >= 2
    assert checkpoints(broken) == checkpoints(whole)
    assert losses(broken) == losses(whole)

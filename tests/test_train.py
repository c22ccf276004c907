import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny import until
from trained import MODEL, OPTIONS, checkpoints, losses, make

from rllc import train
from rllc.config import Schedule, Train
from rllc.mistake import Mistake, Unfinished
from rllc.train import loop


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
    """Make the folder of a run that is to be trained."""
    return lambda name="run", **changed: make(tmp_path / name, **changed)


def test_a_run_is_trained_to_its_end_and_its_loss_falls(run: Callable[..., Path]) -> None:
    path = run(steps=40)
    assert not train.finished(path)
    assert train.done(path) == 0
    loop.run(path)
    assert train.finished(path)
    assert sorted(checkpoints(path)) == [f"step_{step:07d}.safetensors" for step in range(0, 41, 5)]
    assert [line["step"] for line in losses(path)] == list(range(0, 41, 10))
    assert losses(path)[0]["loss"] == pytest.approx(np.log(300), abs=0.3)
    assert losses(path)[-1]["loss"] < losses(path)[0]["loss"] - 0.1
    assert train.done(path) == 40


def test_training_again_changes_nothing(run: Callable[..., Path]) -> None:
    path = run()
    loop.run(path)
    before, lines = checkpoints(path), losses(path)
    loop.run(path)
    assert checkpoints(path) == before
    assert losses(path) == lines


@pytest.mark.parametrize("stop", [0, 1, 5, 7, 12])
def test_a_resumed_run_is_the_undisturbed_one_to_the_bit(
    stop: int, run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, broken = run("whole"), run("broken")
    loop.run(whole)
    monkeypatch.setattr(loop, "RESUME_SECONDS", -1.0)
    rate = train.learning_rate

    def dying(options: Train, step: int) -> float:
        if step == stop:
            raise InterruptedError
        return rate(options, step)

    if stop < OPTIONS.steps:
        monkeypatch.setattr(train, "learning_rate", dying)
        with pytest.raises(InterruptedError):
            loop.run(broken)
        assert not train.finished(broken)
        monkeypatch.setattr(train, "learning_rate", rate)
    loop.run(broken)
    assert checkpoints(broken) == checkpoints(whole)
    assert losses(broken) == losses(whole)


def test_a_torn_line_of_metrics_is_written_again(run: Callable[..., Path]) -> None:
    path = run()
    loop.run(path)
    lines = losses(path)
    text = (path / "metrics.jsonl").read_text()
    (path / "metrics.jsonl").write_text(text[: len(text) // 2])
    (path / "resume.safetensors").unlink()
    loop.run(path)
    assert losses(path) == lines


def test_a_loss_that_is_not_finite_leaves_no_checkpoint_of_it(run: Callable[..., Path]) -> None:
    path = run(lr=1e30, warmup=0, clip=1e30, checkpoints={"every": 1, "log": 0})
    with pytest.raises(Unfinished, match=r"the training loss is not finite at step 1; lower train.lr"):
        loop.run(path)
    assert list(checkpoints(path)) == ["step_0000000.safetensors"]
    assert not train.finished(path)


def test_a_training_without_its_parent_stops(run: Callable[..., Path]) -> None:
    path = run()
    with pytest.raises(Unfinished, match="stopped at step 0, for process 1 that started it is gone"):
        loop.run(path, parent=1)
    loop.run(path, parent=os.getppid())
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
    code = "from rllc.train import __main__, loop; loop.RESUME_SECONDS = 0.02; raise SystemExit(__main__.main())"
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

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rllc import atomic
from rllc.data import building
from rllc.mistake import Mistake

HOLDER = """
import sys, time
from pathlib import Path
from rllc.data import building
with building.alone(Path(sys.argv[1])):
    print("holding", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def holder(folder: Path, seconds: float) -> "subprocess.Popen[str]":
    """A process that holds the marker, once it does."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "holding\n"
    return process


def test_another_builder_is_waited_for(tmp_path: Path) -> None:
    with holder(tmp_path / "x", 1.0):
        began = time.monotonic()
        with building.alone(tmp_path / "x"):
            assert time.monotonic() - began > 0.7
    assert not (tmp_path / "x").exists()


def test_a_builder_that_was_killed_is_replaced_at_once(tmp_path: Path) -> None:
    with holder(tmp_path / "x", 60) as other:
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        began = time.monotonic()
        with building.alone(tmp_path / "x"):
            assert time.monotonic() - began < 5
    assert not (tmp_path / "x").exists()


def elsewhere(folder: Path) -> None:
    """The marker of a builder on another machine."""
    folder.mkdir(parents=True)
    (folder / "owner.json").write_text(json.dumps({"host": "elsewhere", "boot": "b", "pid": 1, "started": "1"}))


def test_one_of_another_machine_is_waited_for_while_it_gives_signs_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, beats = tmp_path / "x", iter(range(12))
    elsewhere(folder)
    monkeypatch.setattr(building, "SILENCE", 0.3)
    monkeypatch.setattr(building, "POLL", 0.1)
    monkeypatch.setattr(building, "_read", lambda _: str(next(beats, 11)))  # changes for 0.6 s, then no more
    began = time.monotonic()
    with building.alone(folder):
        assert time.monotonic() - began > 0.8
    assert json.loads((folder / "owner.json").read_text())["host"] == "elsewhere"  # it may only have been slow


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(building, "POLL", 0.0)
    with pytest.raises(Mistake, match="cannot be written"), building.alone(tmp_path / "file" / "x"):
        pass


def test_a_mistake_inside_goes_through_and_frees_the_place(tmp_path: Path) -> None:
    def fail() -> None:
        with building.alone(tmp_path / "x"):
            assert atomic.owned(tmp_path / "x")
            raise Mistake("mine")

    with pytest.raises(Mistake, match="mine"):
        fail()
    assert not (tmp_path / "x").exists()

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rllc import plan, status, store
from rllc.mistake import Mistake
from rllc.plan import Cell
from rllc.task import Sampler, Task

SAMPLER = Sampler(lr=1e-3, nbeta=30.0, gamma=200.0, chains=4, draws=40, burn_in=10, batch=8)


def cell(step: int, part: str = "L0H1") -> Cell:
    task = Task("demo-s0", "ww", step, part, "code", "rr", "llc", 0, SAMPLER)
    return Cell(task, "runs/x", "data/x", cost=10.0)


def done(sweep: Path, cells: list[Cell], health: str = "ok", seconds: float = 2.0) -> None:
    """Leave what a worker leaves: index lines, and files by their names."""
    (sweep / "index").mkdir(parents=True, exist_ok=True)
    with (sweep / "index" / "w.jsonl").open("a") as index:
        for one in cells:
            key = one.task.key
            value = None if health == "diverged" else 0.5
            line = {"key": key, "value": value, "error": 0.1, "seconds": seconds, "health": health, "reason": ""}
            index.write(json.dumps(line) + "\n")
            file = store.path(sweep, key)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()


def test_every_kind_of_task_is_counted_and_named(tmp_path: Path) -> None:
    cells = [cell(step) for step in range(10)]
    plan.write(tmp_path, cells)
    done(tmp_path, cells[:3])
    done(tmp_path, cells[3:4], "suspect")
    done(tmp_path, cells[4:5], "short")
    done(tmp_path, cells[5:6], "diverged")
    store.put_error(tmp_path, cells[6].task.key, "Traceback\nOSError: it is gone\n")
    store.put_error(tmp_path, cells[0].task.key, "of a try before the success")
    done(tmp_path, [cell(99)])  # of another plan
    found = status.status(tmp_path)
    assert (found.planned, found.done, found.missing, found.suspect, found.short) == (10, 6, 4, 1, 1)
    assert found.diverged == ["llc of L0H1 on code at step 5 of demo-s0, seed 0"]
    assert found.failed == {"llc of L0H1 on code at step 6 of demo-s0, seed 0": "OSError: it is gone"}
    assert found.seconds_left == 4 * 2.0
    assert not found.whole
    assert status.describe(found, tmp_path, workers=2).splitlines() == [
        f"{tmp_path}: 6 of 10 tasks done, 3 missing, 1 failed, 1 diverged, 1 suspect, 1 short",
        "about 0:04 left with 2 workers",
        "failed: llc of L0H1 on code at step 6 of demo-s0, seed 0: OSError: it is gone",
        "diverged: llc of L0H1 on code at step 5 of demo-s0, seed 0",
    ]


def test_the_time_left_names_only_workers_that_are_known(tmp_path: Path) -> None:
    plan.write(tmp_path, cells := [cell(step) for step in range(10)])
    done(tmp_path, cells[:6])
    found = status.status(tmp_path)
    said = [status.describe(found, tmp_path, workers=workers).splitlines()[1] for workers in (0, 1, 4)]
    assert said == [
        "about 0:08 of work left for a single worker", "about 0:08 left with 1 worker", "about 0:02 left with 4 workers"
    ]  # fmt: skip


def test_of_many_failures_the_first_are_named_and_the_others_counted(tmp_path: Path) -> None:
    cells = [cell(step) for step in range(status.SHOWN + 4)]
    plan.write(tmp_path, cells)
    for one in cells[1:]:
        store.put_error(tmp_path, one.task.key, "Traceback\nOSError: it is gone\n")
    lines = status.describe(status.status(tmp_path), tmp_path, workers=1).splitlines()
    assert lines[1 : status.SHOWN + 1] == [
        f"failed: llc of L0H1 on code at step {step} of demo-s0, seed 0: OSError: it is gone"
        for step in range(1, status.SHOWN + 1)
    ]
    assert lines[status.SHOWN + 1 :] == ["and 3 more failed"]


@pytest.mark.parametrize("content", [b"", bytes(100), b"{}"])
def test_a_damaged_result_without_its_line_is_missing(content: bytes, tmp_path: Path) -> None:
    cells = [cell(step) for step in range(3)]
    plan.write(tmp_path, cells)
    done(tmp_path, cells[:1])
    broken = store.path(tmp_path, cells[1].task.key)
    broken.parent.mkdir(parents=True, exist_ok=True)
    broken.write_bytes(content)
    (tmp_path / "index" / "x.jsonl").write_bytes(b"null\n\xff\n{}\n" + bytes(50))
    found = status.status(tmp_path)
    assert (found.planned, found.done, found.missing) == (3, 1, 2)


def test_time_left_is_in_proportion_to_the_cost(tmp_path: Path) -> None:
    cheap, dear = cell(0), dataclasses.replace(cell(1), cost=30.0)
    plan.write(tmp_path, [cheap, dear])
    assert status.status(tmp_path).seconds_left is None
    done(tmp_path, [cheap], seconds=5.0)
    assert status.status(tmp_path).seconds_left == 15.0


@pytest.mark.parametrize(("health", "whole"), [("ok", True), ("suspect", True), ("short", True), ("diverged", False)])
def test_whole_is_every_task_with_a_number(health: str, whole: bool, tmp_path: Path) -> None:
    plan.write(tmp_path, [cell(0)])
    assert not status.status(tmp_path).whole
    done(tmp_path, [cell(0)], health)
    assert status.status(tmp_path).whole is whole


def test_a_sweep_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="there is no plan"):
        status.status(tmp_path / "nothing")


def test_the_command_takes_less_than_a_second_on_thousands_of_results(tmp_path: Path) -> None:
    sweep = tmp_path / "sweeps" / "demo"
    cells = [cell(step, f"L{layer}H{head}") for step in range(250) for layer in range(2) for head in range(8)]
    plan.write(sweep, cells)
    done(sweep, cells[:-1])
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; from rllc.cli import main; sys.exit(main())", "status", f"root={tmp_path}"],
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout
        out = process.stdout.read()
        _, code, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(code)
    assert process.returncode == 1
    assert f"{len(cells) - 1} of {len(cells)} tasks done, 1 missing" in out
    assert used.ru_utime + used.ru_stime < 1.0

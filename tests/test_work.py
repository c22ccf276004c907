import dataclasses
import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny import Job

from rllc import composition, plan, runs, status, store, sweep, work
from rllc.plan import Cell


@pytest.fixture
def planned(job: Job) -> Job:
    """The tiny job, planned."""
    config = composition.compose(job.words())
    sweep.make_plan(config, runs.steps(config))
    return job


def llc(cells: list[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.task.metric == "llc"]


def test_a_share_is_measured_once(planned: Job) -> None:
    cells = plan.read(planned.sweep)
    assert work.work(planned.sweep, plan.slices(cells, 2)[1]) == 0
    half = {cell.task.key for cell in cells[plan.slices(cells, 2)[1]]}
    assert 0 < len(half) < len(cells)
    assert store.keys(planned.sweep) == half
    before = planned.results()
    assert work.work(planned.sweep, plan.slices(cells, 2)[1]) == 0
    assert planned.results() == before
    assert work.work(planned.sweep, plan.slices(cells, 2)[0]) == 0
    assert store.keys(planned.sweep) == {cell.task.key for cell in cells}
    for cell in cells:
        assert store.get(planned.sweep, cell.task.key).task == cell.task
    assert status.status(planned.sweep).whole


def test_the_number_does_not_depend_on_who_measures_it(planned: Job, tmp_path: Path) -> None:
    shutil.copytree(planned.root, tmp_path / "other")
    other = dataclasses.replace(planned, root=tmp_path / "other")
    work.work(planned.sweep)
    for share in reversed(plan.slices(plan.read(other.sweep), 5)):
        work.work(other.sweep, share)
    for key in store.keys(planned.sweep):
        one, two = store.get(planned.sweep, key), store.get(other.sweep, key)
        assert one.value == two.value
        assert one.loss_CS.tobytes() == two.loss_CS.tobytes()


def test_neighbours_share_a_pool_and_other_inputs_have_their_own(planned: Job) -> None:
    cells = plan.read(planned.sweep)
    given = [(cell, id(pool), pool) for cell, pool in work.pools(planned.root, cells)]
    assert [cell for cell, _, _ in given] == cells
    inputs = {(cell.checkpoint, cell.rows, cell.task.sampler) for cell in cells}
    assert len({which for _, which, _ in given}) == len(inputs)


def poisoned(job: Job, cells: list[Cell], sentence: str) -> None:
    """Work, and check that these cells and no others failed, each with a traceback that ends in this sentence."""
    assert work.work(job.sweep) == 1
    found = status.status(job.sweep)
    assert found.planned - found.done == len(cells) == len(found.failed)
    assert set(found.failed) == {status.name(cell) for cell in cells}
    assert all(sentence in text for text in found.failed.values()), found.failed
    for cell in cells:
        text = (job.sweep / "errors" / cell.task.key[:2] / f"{cell.task.key}.txt").read_text()
        assert text.startswith("Traceback (most recent call last):")
        assert sentence in text


def test_rows_that_were_changed_after_planning(planned: Job) -> None:
    cells = plan.read(planned.sweep)
    chosen = [cell for cell in cells if cell.task.dataset == cells[0].task.dataset]
    file = planned.root / cells[0].rows
    whole, rows = file.read_bytes(), np.load(file)
    rows[0, -1] += 1
    np.save(file, rows)
    poisoned(planned, chosen, "no longer holds the rows that were planned")
    file.write_bytes(whole)
    assert work.work(planned.sweep) == 0


def test_a_checkpoint_that_is_broken_after_planning(planned: Job) -> None:
    cells = plan.read(planned.sweep)
    file = planned.run_folder / "checkpoints" / "step_0000010.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])
    poisoned(planned, [cell for cell in cells if cell.task.step == 10], "is not a whole safetensors file")
    file.write_bytes(whole)
    assert work.work(planned.sweep) == 0
    assert store.errors(planned.sweep) == {}


def test_a_checkpoint_that_was_exchanged_after_planning_gives_no_number(planned: Job) -> None:
    cells = plan.read(planned.sweep)
    folder = planned.run_folder / "checkpoints"
    shutil.copy(folder / "step_0000020.safetensors", folder / "step_0000010.safetensors")
    poisoned(planned, [cell for cell in cells if cell.task.step == 10], "is no longer the file that was planned")


def test_rows_that_are_gone(planned: Job) -> None:
    cells = plan.read(planned.sweep)
    rows = {cell.rows for cell in cells if cell.task.dataset == "files"}
    (planned.root / rows.pop()).unlink()
    assert not rows
    poisoned(planned, [cell for cell in cells if cell.task.dataset == "files"], "FileNotFoundError")


def test_a_diverging_sampler_gives_a_result_and_code_1(job: Job) -> None:
    config = composition.compose(job.words("sampler.nbeta=1e30", "grid.metrics=[llc]"))
    sweep.make_plan(config, runs.steps(config))
    assert work.work(job.sweep) == 1
    found = status.status(job.sweep)
    assert found.done == found.planned == len(found.diverged)
    for key in store.keys(job.sweep):
        estimate = store.get(job.sweep, key)
        assert np.isnan(estimate.value)
        assert estimate.health == "diverged"
        assert estimate.reason
    assert work.work(job.sweep) == 0  # nothing left to measure


def test_a_worker_whose_parent_is_gone_stops_before_the_next_task(planned: Job) -> None:
    assert work.work(planned.sweep, parent=1) == 75
    assert store.keys(planned.sweep) == set()
    assert work.work(planned.sweep, parent=os.getppid()) == 0


def test_a_full_disk_ends_the_worker_with_one_sentence(
    planned: Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    room = 5
    put = store.put

    def filling(*words: object) -> None:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        room -= 1
        put(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "put", filling)
    assert work.work(planned.sweep) == 1
    assert capsys.readouterr().err == (
        f"rllc: {planned.sweep}: No space left on device; make room and run the same command again.\n"
    )
    assert len(store.keys(planned.sweep)) == 5
    assert store.errors(planned.sweep) == {}
    monkeypatch.setattr(store, "put", put)
    assert work.work(planned.sweep) == 0


def test_a_root_that_was_moved_is_worked_on(planned: Job, tmp_path: Path) -> None:
    planned.root.rename(tmp_path / "moved")
    moved = dataclasses.replace(planned, root=tmp_path / "moved")
    done = subprocess.run(
        [sys.executable, "-m", "rllc.work", str(moved.sweep), "--cells", "0:"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert status.status(moved.sweep).whole
    (index,) = (moved.sweep / "index").iterdir()
    assert {json.loads(line)["key"] for line in index.read_text().splitlines()} == store.keys(moved.sweep)

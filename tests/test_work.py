import dataclasses
import errno
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from tiny import Job

from rllc import composition, plan, pools, runs, shards, status, store, sweep, work
from rllc.launch.attempts import Attempts
from rllc.models import sharing
from rllc.plan import Cell


@pytest.fixture
def planned(job: Job) -> Job:
    """The tiny job, planned."""
    config = composition.compose(job.words())
    sweep.make_plan(config, runs.steps(config))
    return job


def do(sweep: Path, cells: Sequence[Cell] | None = None, **more: object) -> int:
    """Work on some cells, or the whole plan."""
    return work.work(sweep, plan.read(sweep) if cells is None else cells, name="here", **more)  # type: ignore[arg-type]


def llc(cells: list[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.task.metric == "llc"]


def test_a_share_is_measured_once(planned: Job) -> None:
    cells = plan.read(planned.sweep)
    assert do(planned.sweep, shards.cut(cells, 2)[1]) == 0
    half = {cell.task.key for cell in shards.cut(cells, 2)[1]}
    assert 0 < len(half) < len(cells)
    assert store.keys(planned.sweep) == half
    before = planned.results()
    assert do(planned.sweep, shards.cut(cells, 2)[1]) == 0
    assert planned.results() == before
    assert do(planned.sweep, shards.cut(cells, 2)[0]) == 0
    assert store.keys(planned.sweep) == {cell.task.key for cell in cells}
    for cell in cells:
        assert store.get(planned.sweep, cell.task.key).task == cell.task
    assert status.status(planned.sweep).whole


def test_the_number_does_not_depend_on_who_measures_it(planned: Job, tmp_path: Path) -> None:
    shutil.copytree(planned.root, tmp_path / "other")
    other = dataclasses.replace(planned, root=tmp_path / "other")
    do(planned.sweep)
    for share in reversed(shards.cut(plan.read(other.sweep), 5)):
        do(other.sweep, share)
    for key in store.keys(planned.sweep):
        one, two = store.get(planned.sweep, key), store.get(other.sweep, key)
        assert one.value == two.value
        assert one.loss_CS.tobytes() == two.loss_CS.tobytes()


def test_neighbours_share_a_pool_and_other_inputs_have_their_own(planned: Job) -> None:
    cells = plan.read(planned.sweep)
    given = [(cell, id(pool), pool) for (cell,), pool in pools.each(planned.root, cells)]
    assert [cell for cell, _, _ in given] == cells
    inputs = {(cell.checkpoint, cell.rows, cell.task.sampler) for cell in cells}
    assert len({which for _, which, _ in given}) == len(inputs)


def poisoned(job: Job, cells: list[Cell], sentence: str) -> None:
    """Work, and check that these cells and no others failed, each with a traceback that ends in this sentence."""
    assert do(job.sweep) == 1
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
    assert do(planned.sweep) == 0


def test_a_checkpoint_that_is_broken_after_planning(planned: Job) -> None:
    cells = plan.read(planned.sweep)
    file = planned.run_folder / "checkpoints" / "step_0000010.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])
    poisoned(planned, [cell for cell in cells if cell.task.step == 10], "is not a whole safetensors file")
    file.write_bytes(whole)
    assert do(planned.sweep) == 0
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
    assert do(job.sweep) == 1
    found = status.status(job.sweep)
    assert found.done == found.planned == len(found.diverged)
    for key in store.keys(job.sweep):
        estimate = store.get(job.sweep, key)
        assert np.isnan(estimate.value)
        assert estimate.health == "diverged"
        assert estimate.reason
    assert do(job.sweep) == 0  # nothing left to measure


def test_a_worker_that_is_told_stops_before_the_next_task(planned: Job) -> None:
    assert do(planned.sweep, told=lambda: True) == 75
    assert store.keys(planned.sweep) == set()
    assert do(planned.sweep) == 0


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
    assert do(planned.sweep) == 1
    assert capsys.readouterr().err == (
        f"rllc: {planned.sweep}: No space left on device; make room and run the same command again.\n"
    )
    assert len(store.keys(planned.sweep)) == 5
    assert store.errors(planned.sweep) == {}
    monkeypatch.setattr(store, "put", put)
    assert do(planned.sweep) == 0


def test_a_root_that_was_moved_is_worked_on(planned: Job, tmp_path: Path) -> None:
    planned.root.rename(tmp_path / "moved")
    moved = dataclasses.replace(planned, root=tmp_path / "moved")
    done = subprocess.run(
        [sys.executable, "-m", "rllc.work", str(moved.sweep)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert status.status(moved.sweep).whole
    (index,) = (moved.sweep / "index").iterdir()
    assert {json.loads(line)["key"] for line in index.read_text().splitlines()} == store.keys(moved.sweep)


def record(job: Job, most: int = 2) -> Attempts:
    return Attempts(job.sweep / "attempts" / "0000.jsonl", most)


def test_a_task_that_was_begun_too_often_is_failed_and_passed_over(planned: Job) -> None:
    cells, tried = plan.read(planned.sweep), record(planned)
    bad, once = cells[3].task.key, cells[4].task.key
    for key in (bad, once, bad):
        tried.begin(key)
    assert do(planned.sweep, tried=tried) == 1
    assert store.keys(planned.sweep) == {cell.task.key for cell in cells} - {bad}
    assert store.errors(planned.sweep) == {
        bad: "begun 2 times without a result: its worker was killed each time (out of memory?)"
    }
    assert do(planned.sweep, tried=tried) == 1
    assert do(planned.sweep, tried=Attempts(planned.sweep / "attempts" / "0001.jsonl", 2)) == 0
    assert store.errors(planned.sweep) == {}


def test_under_slurm_what_kills_a_worker_names_the_key(planned: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    bad, tried = plan.read(planned.sweep)[3], record(planned, 1)
    tried.begin(bad.task.key)
    assert do(planned.sweep, [bad], tried=tried) == 1
    (error,) = store.errors(planned.sweep).values()
    assert error.endswith("killed each time (out of memory? launch.mem asks for more)")


def test_a_task_that_failed_is_not_tried_again_within_its_record(planned: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    cells, tried = plan.read(planned.sweep), record(planned)
    measure = work._measure

    def poisoned(sweep: Path, group: list[Cell], pool: object) -> object:
        if cells[5] in group:
            raise ArithmeticError("it is poisoned")
        return measure(sweep, group, pool)  # type: ignore[arg-type]

    monkeypatch.setattr(work, "_measure", poisoned)
    assert do(planned.sweep, tried=tried) == 1
    monkeypatch.setattr(work, "_measure", measure)
    assert do(planned.sweep, tried=tried) == 1
    assert store.keys(planned.sweep) == {cell.task.key for cell in cells} - {cells[5].task.key}
    assert tried.begun() == len(cells)


@pytest.mark.parametrize(
    "fault", [SystemExit(143), KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")]
)
def test_a_task_that_was_stopped_is_not_held_against_it(
    fault: BaseException, planned: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, put = record(planned, most=1), store.put

    def stopping(*_: object) -> None:
        raise fault

    monkeypatch.setattr(store, "put", stopping)
    if isinstance(fault, OSError):
        assert do(planned.sweep, tried=tried) == 1
    else:
        with pytest.raises(type(fault)):
            do(planned.sweep, tried=tried)
    assert tried.begun() == 1
    monkeypatch.setattr(store, "put", put)
    assert do(planned.sweep, tried=tried) == 0
    assert status.status(planned.sweep).whole


def test_a_pool_is_opened_after_its_task_was_begun(planned: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that takes the memory of its worker would otherwise be tried for ever."""
    tried = record(planned)

    def killed(*_: object) -> None:
        raise SystemExit(137)

    monkeypatch.setattr(pools, "_load", killed)
    with pytest.raises(SystemExit):
        do(planned.sweep, tried=tried)
    assert tried.begun() == 1


def test_told_in_the_middle_it_does_the_task_in_hand(planned: Job) -> None:
    tried = record(planned, most=1)
    assert do(planned.sweep, tried=tried, told=lambda: len(store.keys(planned.sweep)) == 4) == 75
    assert len(store.keys(planned.sweep)) == tried.begun() == 4
    assert do(planned.sweep, tried=tried) == 0


@pytest.fixture
def joined(job: Job, monkeypatch: pytest.MonkeyPatch) -> Job:
    """The tiny job, planned where frozen logits are not kept: the three heads of the last layer step together."""
    monkeypatch.setattr(sharing, "CACHE_BYTES", 0)
    monkeypatch.setattr(sharing, "PASSES", -1000)  # a small model, too, is stepped through the channels of its heads
    config = composition.compose(job.words())
    sweep.make_plan(config, runs.steps(config))
    return job


def watched(monkeypatch: pytest.MonkeyPatch, fail: Callable[[list[Cell]], bool] = lambda _: False) -> list[int]:
    """How many cells were measured at once, each time; groups for which `fail` holds raise."""
    sizes, measure = list[int](), work._measure

    def measuring(sweep: Path, group: list[Cell], pool: object) -> object:
        sizes.append(len(group))
        if fail(group):
            raise ArithmeticError("it is poisoned")
        return measure(sweep, group, pool)  # type: ignore[arg-type]

    monkeypatch.setattr(work, "_measure", measuring)
    return sizes


def test_heads_of_the_last_layer_step_together_and_give_the_same_results(
    joined: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(joined.root, tmp_path / "alone")
    alone = tmp_path / "alone" / joined.sweep.relative_to(joined.root)
    plan.write(alone, [dataclasses.replace(cell, together=1) for cell in plan.read(alone)])
    cells, tried, sizes = plan.read(joined.sweep), record(joined), watched(monkeypatch)
    assert {cell.task.part for cell in cells if cell.together == 3} == {"L1H0", "L1H1", "L1H2"}
    assert do(joined.sweep, tried=tried) == do(alone) == 0
    pairs = len({(cell.task.step, cell.task.dataset) for cell in llc(cells)})
    assert (sizes.count(3), max(sizes)) == (pairs, 3)
    assert tried.cut() == {}
    for cell in llc(cells):
        one, other = (store.get(folder, cell.task.key) for folder in (joined.sweep, alone))
        assert (one.value, one.stats) == (other.value, other.stats)
        assert one.loss_CS.tobytes() == other.loss_CS.tobytes()


def test_of_heads_that_step_together_only_the_poisoned_one_fails(joined: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = plan.read(joined.sweep)
    poisoned = next(cell for cell in cells if cell.together > 1)
    sizes, tried = watched(monkeypatch, lambda group: poisoned in group), record(joined)
    assert do(joined.sweep, tried=tried) == 1
    assert store.keys(joined.sweep) == {cell.task.key for cell in cells} - {poisoned.task.key}
    assert tried.failed() == {poisoned.task.key}
    assert sizes.count(3) > 1


def test_a_head_whose_worker_was_killed_is_tried_by_itself(joined: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    first, tried, groups = next(cell for cell in plan.read(joined.sweep) if cell.together > 1), record(joined), []
    tried.begin(first.task.key)
    watched(monkeypatch, lambda group: groups.append([cell.task.key for cell in group]) is not None)
    assert do(joined.sweep, tried=tried) == 0
    assert [first.task.key] in groups
    pairs = len({(cell.task.step, cell.task.dataset) for cell in llc(plan.read(joined.sweep))})
    assert sorted(map(len, groups))[-pairs:] == [2, *[3] * (pairs - 1)]


def test_heads_that_step_together_are_no_more_than_may_be_lost(joined: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    most = max(cell.cost for cell in plan.read(joined.sweep) if cell.together > 1)
    monkeypatch.setattr(pools, "IN_HAND", 2.5 * most)
    sizes = watched(monkeypatch)
    assert do(joined.sweep) == 0
    assert max(sizes) == 2


@pytest.mark.slow
def test_two_workers_that_were_given_the_same_shard_harm_nothing(planned: Job, tmp_path: Path) -> None:
    shutil.copytree(planned.root, tmp_path / "alone")
    alone = dataclasses.replace(planned, root=tmp_path / "alone")
    assert do(alone.sweep) == 0
    cells = plan.read(planned.sweep)
    shard = planned.sweep / "local" / "shards" / "0000.jsonl"
    plan.write_lines(shard, cells)
    both = [subprocess.Popen([sys.executable, "-m", "rllc.work", planned.sweep, f"--shard={shard}"]) for _ in range(2)]
    assert [process.wait(120) for process in both] == [0, 0]
    assert not list(planned.sweep.rglob("*.tmp"))
    for key in store.keys(alone.sweep):
        one, two = store.get(planned.sweep, key), store.get(alone.sweep, key)
        assert (one.value, one.loss_CS.tobytes()) == (two.value, two.loss_CS.tobytes())
    assert store.index(planned.sweep).keys() == {cell.task.key for cell in cells}


@pytest.mark.slow
def test_hosts_that_are_given_a_share_each_do_the_whole_plan(planned: Job) -> None:
    for place in (2, 1, 3):
        before = store.keys(planned.sweep)
        done = subprocess.run([sys.executable, "-m", "rllc.work", planned.sweep, f"--share={place}/3"], check=False)
        assert done.returncode == 0
        assert store.keys(planned.sweep) > before
    assert status.status(planned.sweep).whole
    wrong = subprocess.run(
        [sys.executable, "-m", "rllc.work", planned.sweep, "--share=4/3"], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2
    assert "'4/3' is not I/N with I from 1 to N" in wrong.stderr

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest
import yaml
from test_plan import DATASETS, SAMPLER, cells
from test_store import ESTIMATE, same

from rllc import composition, derive, kept, merge, plan, status, store
from rllc.mistake import Mistake
from rllc.plan import Cell


def filled(sweep: Path, planned: list[Cell], measured: list[Cell], value: float = 0.5) -> Path:
    """A sweep with a plan and some results."""
    plan.write(sweep, planned)
    (sweep / "config.yaml").write_text(f"name: {sweep.name}\nrun: demo\n")
    (sweep / "env.json").write_text('{"code": "0.1.0+abc"}\n')
    for cell in measured:
        store.put(sweep, dataclasses.replace(ESTIMATE, task=cell.task, value=value), "w")
    return sweep


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    """Two sweeps that share a checkpoint, of which the first has done a half and the second all."""
    one, two = (cells(*steps, metrics=["llc"], seeds=[0]) for steps in ([0, 100], [100, 200]))
    sweeps = tmp_path / "sweeps"
    return [filled(sweeps / "a", one, one[::2]), filled(sweeps / "b", two, two, 0.25)]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_plans_are_united_and_the_first_result_of_a_key_is_taken(sources: list[Path]) -> None:
    whole = sources[0].parent / "whole"
    before = [files(source) for source in sources]
    said = merge.merge(whole, sources)
    assert [files(source) for source in sources] == before
    planned = cells(0, 100, 200, metrics=["llc"], seeds=[0])
    assert plan.read(whole) == planned
    first, second = map(store.keys, sources)
    assert store.keys(whole) == first | second
    assert said == f"{len(planned)} tasks, {len(planned)} of them new; {len(first | second)} results taken"
    for key in first | second:
        assert same(store.get(whole, key), store.get(sources[key not in first], key))
    assert {key: line["value"] for key, line in store.index(whole).items()} == {
        key: 0.5 if key in first else 0.25 for key in first | second
    }
    assert yaml.safe_load((whole / "config.yaml").read_text()) == {
        "name": "whole", "run": "demo", "merge": [str(source) for source in sources]
    }  # fmt: skip
    assert json.loads((whole / "env.json").read_text()) == {"code": "0.1.0+abc"}


def test_merging_again_takes_only_what_is_new(sources: list[Path]) -> None:
    whole = sources[0].parent / "whole"
    merge.merge(whole, sources)
    before = files(whole)
    assert merge.merge(whole, sources).endswith(" 0 of them new; 0 results taken")
    assert files(whole) == before
    late = cells(0, metrics=["llc"], seeds=[0])[1]
    store.put(sources[0], dataclasses.replace(ESTIMATE, task=late.task), "w")
    assert merge.merge(whole, sources).endswith(" 0 of them new; 1 results taken")
    assert late.task.key in store.keys(whole)


def test_a_sweep_may_take_in_others_itself(sources: list[Path]) -> None:
    merge.merge(sources[0], sources[1:])
    assert len(plan.read(sources[0])) == len(cells(0, 100, 200, metrics=["llc"], seeds=[0]))
    assert yaml.safe_load((sources[0] / "config.yaml").read_text())["name"] == "a"
    assert store.keys(sources[1]) < store.keys(sources[0])


def test_a_sweep_is_not_taken_twice_nor_into_itself(sources: list[Path]) -> None:
    whole = sources[0].parent / "whole"
    with pytest.raises(Mistake, match=rf"^merge: {sources[0]} is named twice"):
        merge.merge(whole, [*sources, sources[0]])
    with pytest.raises(Mistake, match=rf"^merge: {sources[1]} is the sweep that is made itself"):
        merge.merge(sources[1], sources)
    assert not whole.exists()


def test_one_sweep_under_two_paths_is_named(sources: list[Path], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "sweeps")
    config = composition.compose([f"root={tmp_path}", "name=whole", f"merge=[a,{tmp_path}/link/a]"])
    with pytest.raises(Mistake, match=rf"^merge: {sources[0]} is named twice"):
        derive.merge_sweeps(config)


def test_results_are_copied_where_there_are_no_links(sources: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    whole = sources[0].parent / "whole"
    monkeypatch.setattr(os, "link", none)
    merge.merge(whole, sources)
    for source in sources:
        shutil.rmtree(source)
    assert all(store.get(whole, key).chains_C.tolist() == [0.1, 0.5] for key in store.keys(whole))
    assert len(store.keys(whole)) > 0
    assert not list(whole.rglob("*.tmp"))


def test_a_sweep_of_another_root_keeps_its_files(sources: list[Path], tmp_path: Path) -> None:
    elsewhere = tmp_path / "other" / "sweeps" / "b"
    shutil.copytree(sources[1], elsewhere)
    plan.write(
        elsewhere, [*plan.read(elsewhere), dataclasses.replace(cells(300)[0], make="user:make", rows="user:ROWS")]
    )
    whole = sources[0].parent / "whole"
    merge.merge(whole, [sources[0], elsewhere])
    of_step = {cell.task.step: cell for cell in plan.read(whole)}
    assert (of_step[0].checkpoint, of_step[0].rows) == ("runs/demo-s0/step_0", "data/pile.npy")
    assert of_step[100].checkpoint == "runs/demo-s0/step_100"
    assert of_step[200].checkpoint == str(tmp_path / "other" / "runs" / "demo-s0" / "step_200")
    assert of_step[200].rows == str(tmp_path / "other" / "data" / "pile.npy")
    assert of_step[300].rows == "user:ROWS"
    assert {cell.labels for cell in of_step.values()} == {""}


def test_token_losses_come_along(sources: list[Path]) -> None:
    """The cell that keeps them wins, and its table comes from whoever has it."""
    marked = [dataclasses.replace(cell, keep=cell.task.part == "L0H2") for cell in plan.read(sources[1])]
    plan.write(sources[1], marked)
    key = next(cell.task.key for cell in marked if cell.keep and cell.task.key in store.keys(sources[0]))
    kept.path(sources[1], key).parent.mkdir(parents=True)
    kept.path(sources[1], key).write_bytes(b"table")
    whole = sources[0].parent / "whole"
    merge.merge(whole, sources)
    assert {cell.task.key: cell.keep for cell in plan.read(whole)}[key]
    assert kept.path(whole, key).read_bytes() == b"table"
    assert store.get(whole, key).value == 0.5


OTHERS = {
    "sampler.gamma 200.0, now 100.0": {"sampler": dataclasses.replace(SAMPLER, gamma=100.0)},
    "weights of demo-s0 at step 100 wdemo-s0100, now xdemo-s0100": {"weights": "x"},
    "text of pile pp, now qq": {"datasets": [dataclasses.replace(DATASETS[0], rows="qq"), DATASETS[1]]},
}


@pytest.mark.parametrize("said", OTHERS)
def test_other_meanings_are_refused_before_anything_is_written(said: str, sources: list[Path], tmp_path: Path) -> None:
    strange = filled(tmp_path / "sweeps" / "c", cells(100, **OTHERS[said]), [])  # type: ignore[arg-type]
    whole = tmp_path / "sweeps" / "whole"
    with pytest.raises(Mistake) as told:
        merge.merge(whole, [*sources, strange])
    assert str(told.value) == (
        f"merge: {sources[0]} and {strange} are of different configurations ({said}); only sweeps of one sampler, "
        "with the same text and weights under each name, become one."
    )
    assert not whole.exists()


def test_a_source_without_a_plan_is_refused(sources: list[Path]) -> None:
    with pytest.raises(Mistake, match=r"^merge: there is no plan in .*/sweeps/nothing; legal: sweeps beside "):
        merge.merge(sources[0].parent / "whole", [sources[0], sources[0].parent / "nothing"])


def test_a_damaged_result_without_its_line_is_left_where_it_is(sources: list[Path]) -> None:
    key = min(store.keys(sources[1]) - store.keys(sources[0]))
    store.path(sources[1], key).write_bytes(b"")
    (sources[1] / "index" / "w.jsonl").unlink()
    whole = sources[0].parent / "whole"
    merge.merge(whole, sources)
    assert key not in store.keys(whole)


def test_the_verb_merges_and_gathers(sources: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    root = sources[0].parent.parent
    config = composition.compose([f"root={root}", "name=whole", f"merge=[a,{sources[1]}]"])
    derive.merge_sweeps(config)
    assert derive.gather_results(config) == 1
    found = status.status(root / "sweeps" / "whole")
    assert (found.planned, found.done) == (len(cells(0, 100, 200, metrics=["llc"], seeds=[0])), found.planned - 24)
    assert capsys.readouterr().out.startswith("merge: 144 tasks, 144 of them new; 120 results taken\n")
    assert (root / "sweeps" / "whole" / "estimates.parquet").exists()

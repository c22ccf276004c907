import dataclasses
import itertools
import json
import time
from pathlib import Path

import numpy as np
import pytest

from rllc import plan, planning
from rllc.config import Grid, Model
from rllc.mistake import Mistake
from rllc.plan import Cell
from rllc.planning import Checkpoint, Dataset
from rllc.task import Budget, Sampler

MODEL = Model(n_layers=2, n_heads=12, d_model=16, d_head=4, n_ctx=16, d_vocab=300, positions="shortformer")
SAMPLER = Sampler(lr=1e-3, nbeta=30.0, gamma=200.0, chains=4, draws=40, burn_in=10, batch=8)
GRID = Grid(
    steps=None, parts=["heads"], datasets=None, seeds=[0, 1], metrics=["llc", "prev_token", "current_token", "prefix"]
)  # fmt: skip
REPEATS = Dataset("repeats", "rr", "data/repeats.npy")
DATASETS = [Dataset("pile", "pp", "data/pile.npy"), Dataset("code", "cc", "data/code.npy")]


def checkpoints(*steps: int, run: str = "demo-s0", weights: str = "w") -> list[Checkpoint]:
    return [Checkpoint(run, step, f"runs/{run}/step_{step}", f"{weights}{run}{step}", MODEL) for step in steps]


def cells(*steps: int, sampler: Sampler = SAMPLER, datasets: list[Dataset] = DATASETS, **changed: object) -> list[Cell]:
    weights = str(changed.pop("weights", "w"))
    grid = dataclasses.replace(GRID, **changed)
    return planning.cells(checkpoints(*steps, weights=weights), datasets, REPEATS, grid=grid, sampler=sampler)


def test_the_grid_is_spelt_out() -> None:
    found = cells(100, 0)
    count: dict[tuple[str, str], int] = {}
    for cell in found:
        count[cell.task.metric, cell.task.dataset] = count.get((cell.task.metric, cell.task.dataset), 0) + 1
    heads, steps, seeds = 24, 2, 2
    assert count == {
        ("llc", "pile"): heads * steps * seeds, ("llc", "code"): heads * steps * seeds,
        **{(f"{what}_token", dataset): heads * steps for what in ("prev", "current") for dataset in ("pile", "code")},
        ("prefix", "repeats"): heads * steps,
    }  # fmt: skip
    assert len({cell.task.key for cell in found}) == len(found)
    assert all((cell.task.sampler == SAMPLER) == (cell.task.metric == "llc") for cell in found)
    assert all(cell.task.seed == 0 for cell in found if cell.task.metric != "llc")
    assert all(cell.checkpoint == f"runs/demo-s0/step_{cell.task.step}" for cell in found)
    assert {(cell.task.dataset, cell.task.rows, cell.rows) for cell in found} == {
        ("pile", "pp", "data/pile.npy"), ("code", "cc", "data/code.npy"), ("repeats", "rr", "data/repeats.npy")
    }  # fmt: skip


def test_the_order_is_run_step_dataset_layer_and_head_by_number() -> None:
    rng = np.random.default_rng(0)
    given = [*checkpoints(1000, 200, 0, run="demo-s1"), *checkpoints(1000, 200, 0)]
    shuffled = [given[i] for i in rng.permutation(len(given))]
    found = planning.cells(shuffled, DATASETS[::-1], REPEATS, grid=GRID, sampler=SAMPLER)
    tasks = [cell.task for cell in found if cell.task.metric == "llc" and cell.task.seed == 0]
    expected = itertools.product(
        ("demo-s0", "demo-s1"), (0, 200, 1000), ("code", "pile"), [f"L{la}H{h}" for la in range(2) for h in range(12)]
    )
    assert [(task.run, task.step, task.dataset, task.part) for task in tasks] == list(expected)


def test_heads_are_spelt_out_once_beside_other_parts() -> None:
    parts = planning.parts_of(MODEL, ["L1H6", "heads", "L0*", "L1H6.q", "*"])
    assert parts[0] == "L1H6"
    assert sorted(parts[1:24]) == sorted(
        f"L{layer}H{head}" for layer in range(2) for head in range(12) if (layer, head) != (1, 6)
    )
    assert parts[24:] == ["L0*", "L1H6.q", "*"]


def test_scores_of_patterns_are_measured_on_whole_heads_alone() -> None:
    found = cells(0, parts=["L0H3", "L0*", "L1H2.q", "L0H1+L0H2"], seeds=[0])
    assert {cell.task.part for cell in found if cell.task.metric != "llc"} == {"L0H3"}
    assert {cell.task.part for cell in found if cell.task.metric == "llc"} == {"L0H3", "L0*", "L1H2.q", "L0H1+L0H2"}


def test_a_part_that_does_not_exist_is_refused() -> None:
    sentence = r"^grid.parts: 'L2H9' matches no parameter; nearest: L1H9, L0H9, .*; legal: heads L0H0, L0H1"
    with pytest.raises(Mistake, match=sentence):
        planning.parts_of(MODEL, ["heads", "L2H9"])


def test_layer_0_costs_more_than_layer_1() -> None:
    cost = {cell.task.part: cell.cost for cell in cells(0) if cell.task.metric == "llc"}
    assert cost["L0H0"] == cost["L0H11"] > cost["L1H0"] > 0


def test_a_plan_comes_back_from_its_file(tmp_path: Path) -> None:
    assert plan.read(tmp_path) == []
    found = cells(0, 100)
    plan.write(tmp_path, found)
    assert plan.read(tmp_path) == plan.required(tmp_path) == found


def test_equal_samplers_of_a_plan_are_one_object(tmp_path: Path) -> None:
    other = dataclasses.replace(SAMPLER, gamma=100.0, budget=Budget(0.02, 0.0, 64))
    plan.write(tmp_path, [*cells(0, 100), *cells(0, sampler=other)])
    found = plan.read(tmp_path)
    assert len({id(cell.task.sampler) for cell in found if cell.task.sampler}) == 2


def test_whole_numbers_and_fractions_of_one_value_are_told_apart(tmp_path: Path) -> None:
    """Their JSON differs, and with it the key."""
    one, other = (dataclasses.replace(SAMPLER, gamma=gamma) for gamma in (200, 200.0))
    planned = [*cells(0, sampler=one, seeds=[0]), *cells(0, sampler=other, seeds=[0])]
    plan.write(tmp_path, planned)
    assert [cell.task.key for cell in plan.read(tmp_path)] == [cell.task.key for cell in planned]


def test_a_plan_of_other_spacing_and_order_is_read(tmp_path: Path) -> None:
    found = cells(0, sampler=dataclasses.replace(SAMPLER, budget=Budget(0.02, 0.0, 64)))
    lines = [json.dumps(dataclasses.asdict(cell), indent=None) + "\n" for cell in found]
    (tmp_path / "plan.jsonl").write_text("".join(lines))
    assert plan.read(tmp_path) == found


def test_a_plan_that_is_required_and_not_there(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match=f"^name: there is no plan in {tmp_path}; run `rllc sweep` first.$"):
        plan.required(tmp_path)


@pytest.mark.parametrize("damage", [
    "{line:.40}", "\x00\x00", '{{"a":1}}', "", "[1]", "3", '{{"task":{{"sampler":{{"lr":1}}}}}}', "{line}{line}",
    "\udcff",
])  # fmt: skip
def test_a_damaged_line_is_named_with_its_remedy(damage: str, tmp_path: Path) -> None:
    plan.write(tmp_path, cells(0))
    file = tmp_path / "plan.jsonl"
    lines = file.read_text().splitlines()
    lines[2] = damage.format(line=lines[2])
    file.write_bytes("\n".join(lines).encode(errors="surrogateescape"))
    with pytest.raises(Mistake) as told:
        plan.required(tmp_path)
    assert str(told.value) == (
        f"name: {file}, line 3 is damaged; delete the file: `rllc sweep` makes it again from the configuration, "
        "and results are kept."
    )


def test_growing_keeps_the_old_and_adds_the_new_in_order(tmp_path: Path) -> None:
    old = cells(0, 200, seeds=[0])
    grown = plan.grow(old, cells(0, 100, 200, seeds=[0, 1]), tmp_path)
    assert grown == cells(0, 100, 200, seeds=[0, 1])
    assert plan.grow(grown, old, tmp_path) == grown
    assert plan.grow(old, old, tmp_path) == old


def test_growing_by_another_dataset_or_run_is_no_change_of_meaning(tmp_path: Path) -> None:
    old = cells(0, datasets=DATASETS[:1])
    other = planning.cells(checkpoints(0, run="demo-s1"), DATASETS, REPEATS, grid=GRID, sampler=SAMPLER)
    assert len(plan.grow(old, [*cells(0), *other], tmp_path)) == 2 * len(cells(0))


REFUSED = {
    "sampler.gamma 200.0, now 100.0; sampler.draws 40, now 41": {
        "sampler": dataclasses.replace(SAMPLER, gamma=100.0, draws=41)
    },
    "weights of demo-s0 at step 0 wdemo-s00, now xdemo-s00": {"weights": "x"},
    "text of pile pp, now qq": {"datasets": [Dataset("pile", "qq", "data/other.npy"), DATASETS[1]]},
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_a_change_of_what_the_old_numbers_mean_is_refused(sentence: str, tmp_path: Path) -> None:
    with pytest.raises(Mistake) as told:
        plan.grow(cells(0), cells(0, 100, **REFUSED[sentence]), tmp_path)  # type: ignore[arg-type]
    assert str(told.value) == (
        f"name: {tmp_path} holds numbers of another configuration ({sentence}); choose another name=."
    )


def test_twenty_thousand_cells_take_seconds(tmp_path: Path) -> None:
    steps = range(95)
    began = time.process_time()
    found = cells(*steps)
    plan.write(tmp_path, found)
    assert plan.read(tmp_path) == found
    assert len(plan.grow(found, found, tmp_path)) == len(found) > 20_000
    assert time.process_time() - began < 8
    assert len(json.loads((tmp_path / "plan.jsonl").read_text().partition("\n")[0])) == 8

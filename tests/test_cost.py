import json
import socket
from pathlib import Path

import numpy as np
import pytest
from tiny import Job

from rllc import composition, cost, plan, store, sweep
from rllc.cost import Rate
from rllc.plan import Cell

WORDS = ["grid.steps=[0,100]", "data=[stdlib_mix]"]


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    config = composition.compose(WORDS)
    return sweep.outline(config, {"stdlib-s0": [0, 100]})


def seconds(cell: Cell) -> float:
    """A machine on which chains of layer 0 take longer, and scores nearly nothing."""
    if cell.task.sampler is None:
        return 1e-9 * cell.cost
    return 0.3 + 2e-9 * cell.cost if cell.task.part.startswith("L0") else 0.2 + 1e-9 * cell.cost


def test_an_outline_counts_every_cell_and_step(cells: list[Cell]) -> None:
    found = cost.estimate(cells, {})
    assert found.tasks == 2 * 16 * 4
    assert found.steps == 2 * 16 * 8 * 210
    assert found.flop == pytest.approx(sum(cell.cost for cell in cells))
    assert np.isnan(found.seconds)
    assert found.describe(2).endswith(", about an unknown time with 2 workers")


def test_an_outline_names_the_cells_of_the_plan_that_is_made_later(job: Job) -> None:
    config = composition.compose(job.words("stages=[plan]"))
    steps = sweep.check(config)
    sweep.make_plan(config, steps)
    made = plan.read(job.sweep)
    assert [cost.named(cell.task) for cell in made] == [cell.task for cell in sweep.outline(config, steps)]
    assert [cell.cost for cell in made] == [cell.cost for cell in sweep.outline(config, steps)]


def test_hours_are_those_of_each_kind_and_what_is_done_costs_nothing(cells: list[Cell]) -> None:
    rates = {cost.kind(cell): cost.fit([(cell.cost, seconds(cell)), (2 * cell.cost, 2 * seconds(cell))])
             for cell in cells}  # fmt: skip
    assert len(rates) == 2 + 3
    assert cost.estimate(cells, rates).seconds == pytest.approx(sum(map(seconds, cells)))
    done = {cell.task for cell in cells[::3]}
    left = [cell for cell in cells if cell.task not in done]
    found = cost.estimate(cells, rates, done)
    assert (found.tasks, found.done) == (len(cells), len(cells[::3]))
    assert found.seconds == pytest.approx(sum(map(seconds, left)))
    assert found.flop == pytest.approx(sum(cell.cost for cell in left))


def test_a_kind_that_nothing_is_known_of_takes_the_mean(cells: list[Cell]) -> None:
    chains = [cell for cell in cells if cell.task.sampler]
    rates = {("one",): Rate(0.1, 1e-9), ("other",): Rate(0.3, 3e-9)}
    expected = 0.2 * len(chains) + 2e-9 * sum(cell.cost for cell in chains)
    assert cost.estimate(chains, rates).seconds == pytest.approx(expected)


@pytest.mark.parametrize("changes", [{"lr": 1e-4}, {"gamma": 1.0}, {"nbeta": 7.0}, {"draws": 190}, {"burn_in": 5}])
def test_what_does_not_change_the_time_of_a_step_is_no_other_kind(changes: dict[str, float]) -> None:
    assert cost.kind(changed(**changes)) == cost.kind(changed())


@pytest.mark.parametrize("changes", [{"chains": 4}, {"batch": 2}, {"dtype": "float64"}, {"method": "rmsprop"}])
def test_what_changes_it_is(changes: dict[str, object]) -> None:
    assert cost.kind(changed(**changes)) != cost.kind(changed())


def changed(**changes: object) -> Cell:
    """The first cell with another sampler, and its cost."""
    config = composition.compose([*WORDS, *(f"++sampler.{name}={value}" for name, value in changes.items())])
    return next(cell for cell in sweep.outline(config, {"stdlib-s0": [0]}) if cell.task.sampler)


@pytest.mark.parametrize(
    ("pairs", "rate"),
    [
        ([(1.0, 3.0), (2.0, 5.0), (3.0, 7.0)], Rate(1.0, 2.0)),
        ([(2.0, 3.0), (2.0, 5.0)], Rate(0.0, 2.0)),
        ([(1.0, 1.0), (2.0, 4.0)], Rate(0.0, 5 / 3)),  # the line would begin below 0
        ([(1.0, 4.0), (2.0, 2.0)], Rate(0.0, 2.0)),  # or fall
    ],
)
def test_the_line_through_what_was_seen(pairs: list[tuple[float, float]], rate: Rate) -> None:
    found = cost.fit(pairs)
    assert (found.fixed, found.per_flop) == pytest.approx((rate.fixed, rate.per_flop))


@pytest.mark.parametrize("place", ["a", "a/calibration"])
def test_finished_tasks_of_this_host_tell_exactly(place: str, cells: list[Cell], tmp_path: Path) -> None:
    folder = tmp_path / "sweeps" / place
    plan.write(folder, cells)
    (folder / "index").mkdir()
    lines = [json.dumps(dict.fromkeys(store.LINE) | {"key": cell.task.key, "seconds": seconds(cell)}) for cell in cells]
    (folder / "index" / f"{socket.gethostname()}-1.jsonl").write_text("\n".join(lines) + "\n{torn")
    wrong = [json.dumps(dict.fromkeys(store.LINE) | {"key": cell.task.key, "seconds": 1e9}) for cell in cells]
    (folder / "index" / "elsewhere-1.jsonl").write_text("\n".join(wrong))
    assert cost.estimate(cells, cost.past(tmp_path)).seconds == pytest.approx(sum(map(seconds, cells)))


@pytest.mark.slow
def test_a_dry_run_tells_the_cost_and_starts_nothing(job: Job) -> None:
    before = sorted(job.root.rglob("*"))
    dry = job.do("sweep", "launch.dry_run=true")
    assert dry.returncode == 0, dry.stderr
    assert dry.stdout.startswith(f"sweep: 72 tasks, 0 of them done; left: {18 * 2 * 3} chain steps, ")
    assert " with 1 worker; nothing was started\n" in dry.stdout
    assert sorted(job.root.rglob("*")) == before
    assert job.do("sweep", "stages=[plan,launch]", "grid.steps=[0]").returncode == 0
    told = job.do("sweep", "launch.dry_run=true").stdout
    assert told.startswith(f"sweep: 72 tasks, 24 of them done; left: {12 * 2 * 3} chain steps, ")

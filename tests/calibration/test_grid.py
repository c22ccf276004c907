import pytest

from rllc import composition
from rllc.calibration import grid
from rllc.calibration.grid import Setting
from rllc.mistake import Mistake
from rllc.planning import Checkpoint, Dataset

HEADS = [f"L{layer}H{head}" for layer in range(5) for head in range(8)]


def config(*words):
    return composition.compose(words)


def test_every_chain_is_as_long_in_relaxation_times():
    base = config("sampler.every=2").sampler
    for setting in (Setting(200.0, 30.0, 1e-3), Setting(100.0, 10.0, 5e-4)):
        sampler = setting.sampler(base, 4, 10.0)
        assert sampler.draws * sampler.every == 10 * setting.relaxation
        assert sampler.burn_in == setting.relaxation
        assert (sampler.lr, sampler.gamma, sampler.nbeta) == (setting.lr, setting.gamma, setting.nbeta)


def test_a_step_that_gamma_alone_makes_too_large_costs_no_chain():
    asked = config("calibrate.lr=[1e-3,2e-3,4e-3,1e-1]", "calibrate.gamma=[200]", "calibrate.nbeta=[30]")
    can, cannot = grid.settings(asked.calibrate, asked.sampler)
    assert [setting.lr for setting in can] == [1e-3, 2e-3]  # ε γ/4 is 5 and 10 %, the tolerance
    assert list(cannot.values()) == ["step bias at least 20.0% by γ alone", "step bias at least 500.0% by γ alone"]


def test_a_grid_without_a_chain_is_a_mistake():
    asked = config("calibrate.lr=[1e-2]")
    with pytest.raises(Mistake, match=r"^calibrate.lr: \[0.01\] have a step bias above 0.1 by γ alone; .* = 0.004 is"):
        grid.settings(asked.calibrate, asked.sampler)


def test_places_are_the_first_middle_and_last_checkpoint_and_two_parts_of_each_layer():
    assert grid.steps(config(), [0, 100, 200, 400, 600]) == [0, 200, 600]
    assert grid.steps(config(), [7]) == [7]
    assert grid.chosen(config(), HEADS) == ["L0H0", "L0H7", "L2H0", "L2H7", "L4H0", "L4H7"]
    assert grid.chosen(config(), ["*"]) == ["*"]
    assert grid.chosen(config("calibrate.parts=[L1H3]"), HEADS) == ["L1H3"]


def test_places_that_the_sweep_does_not_have():
    with pytest.raises(Mistake, match=r"^calibrate.steps: 7 is not one of: 0, 100\."):
        grid.steps(config("calibrate.steps=[7]"), [0, 100])
    with pytest.raises(Mistake, match=r"^calibrate.parts: 'L9H9' is not one of: L0H0"):
        grid.chosen(config("calibrate.parts=[L9H9]"), HEADS)


def test_cells_are_the_whole_product_and_lie_one_folder_deeper():
    asked = config()
    checkpoints = [Checkpoint("r", step, f"runs/r/{step}", "w", asked.model) for step in (0, 9)]
    datasets = [Dataset("a", "x", "data/a.npy"), Dataset("b", "y", "/else/b.npy", "kl:z", "runs/q")]
    tried = [Setting(200.0, 30.0, 1e-3), Setting(100.0, 30.0, 1e-3)]
    cells = grid.cells(asked, checkpoints, datasets, tried, 10.0)
    assert len({cell.task.key for cell in cells}) == len(cells) == 2 * 2 * 2 * 4
    assert {cell.checkpoint for cell in cells} == {"../runs/r/0", "../runs/r/9"}
    assert {(cell.rows, cell.labels) for cell in cells} == {("../data/a.npy", ""), ("/else/b.npy", "../runs/q")}
    groups = [(cell.task.step, cell.task.dataset, cell.task.sampler) for cell in cells]
    assert len(list(dict.fromkeys(groups))) == sum(a != b for a, b in zip(groups, [None, *groups], strict=False))

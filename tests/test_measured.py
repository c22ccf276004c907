import typing

import pytest

from rllc import config, planning
from rllc.config import Grid, Model
from rllc.measured import METRICS
from rllc.metrics import named
from rllc.task import Sampler

MODEL = Model(3, 2, 8, 4, 12, 300, "shortformer")
SAMPLER = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=2, draws=3, burn_in=0, batch=2)
DATASETS = [planning.Dataset("a", "ha", "a.npy"), planning.Dataset("b", "hb", "b.npy")]
REPEATS = planning.Dataset("repeats", "hr", "r.npy")


def cells(metrics, parts=("heads",), seeds=(0,)):
    grid = Grid(None, list(parts), None, list(seeds), list(metrics))
    at = [planning.Checkpoint("run", 0, "c", "w", MODEL)]
    return planning.cells(at, DATASETS, REPEATS, grid=grid, sampler=SAMPLER)


def test_every_metric_has_a_name_a_place_and_a_function():
    assert set(METRICS) == set(typing.get_args(config.Metric)) == set(named.MEASURES)


def test_a_pair_is_of_two_layers_the_lower_first():
    found = {cell.task.part for cell in cells(["path_patching"])}
    heads = [(layer, head) for layer in range(3) for head in range(2)]
    assert found == {f"L{low[0]}H{low[1]}+L{high[0]}H{high[1]}" for low in heads for high in heads if low[0] < high[0]}
    few = {cell.task.part for cell in cells(["q_composition"], parts=("L0H1", "L2H0", "L2H1", "L1*"))}
    assert few == {"L0H1+L2H0", "L0H1+L2H1"}


@pytest.mark.parametrize(
    ("metric", "datasets", "count"),
    [("icl", {"a", "b"}, 2), ("prefix", {"repeats"}, 6), ("k_composition", {"weights"}, 12), ("llc", {"a", "b"}, 24),
     ("hessian_trace", {"a", "b"}, 24), ("zero_ablation", {"a", "b"}, 12)],
)  # fmt: skip
def test_what_a_metric_is_measured_on(metric, datasets, count):
    found = cells([metric], seeds=(0, 1))
    assert {cell.task.dataset for cell in found} == datasets
    assert len(found) == len({cell.task.key for cell in found}) == count
    assert all((cell.task.sampler is None) == (metric != "llc") for cell in found)
    assert all(cell.cost > 0 for cell in found)


def test_the_whole_model_is_one_part_whatever_the_parts():
    assert {cell.task.part for cell in cells(["bigram"], parts=("L0H1", "L2*"))} == {"*"}


def test_what_is_read_off_the_weights_has_no_text():
    assert {(cell.task.rows, cell.rows) for cell in cells(["v_composition"])} == {("", "")}

import dataclasses
import itertools

import numpy as np
import pytest
from test_plan import cells

from rllc import shards
from rllc.plan import Cell


def cost(shard: list[Cell]) -> float:
    return sum(cell.cost for cell in shard)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 500])
def test_shards_are_what_is_missing_in_order_and_of_about_equal_cost(count: int) -> None:
    rng = np.random.default_rng(count)
    whole = [dataclasses.replace(cell, cost=float(rng.exponential())) for cell in cells(0, 100, 200)]
    done = {cell.task.key for cell in whole if rng.random() < 0.3}
    left = [cell for cell in whole if cell.task.key not in done]
    found = shards.cut(whole, count, done)
    assert list(itertools.chain(*found)) == left
    assert len(found) <= count
    assert all(found)
    mean, largest = cost(left) / count, max(cell.cost for cell in left)
    assert max(map(cost, found)) <= mean * (1 + 2 * shards.SLACK) + 2 * largest


def test_a_cut_falls_between_checkpoints_where_one_lies_near() -> None:
    whole = cells(*range(10), metrics=["llc"])
    found = shards.cut(whole, 5)
    assert [sorted({cell.task.step for cell in shard}) for shard in found] == [[2 * i, 2 * i + 1] for i in range(5)]
    near = shards.cut(whole[2:], 5)  # a cell or two aside, no checkpoint is divided yet
    assert [sorted({cell.task.step for cell in shard}) for shard in near] == [[2 * i, 2 * i + 1] for i in range(5)]


def test_a_checkpoint_is_not_divided_for_an_end_of_a_dataset_that_is_nearer() -> None:
    whole = cells(0, 1, metrics=["llc"])
    prices = {(0, "code"): 50.0, (0, "pile"): 4.0, (1, "code"): 23.0, (1, "pile"): 23.0}  # together 100
    priced = [dataclasses.replace(cell, cost=prices[cell.task.step, cell.task.dataset] / 48) for cell in whole]
    assert [{cell.task.step for cell in shard} for shard in shards.cut(priced, 2)] == [{0}, {1}]


def test_else_between_datasets_and_else_where_the_cost_is_even() -> None:
    whole = cells(0, 1, metrics=["llc"])  # 96 cells a checkpoint, 48 of a dataset
    four = shards.cut(whole, 4)
    assert [{(cell.task.step, cell.task.dataset) for cell in shard} for shard in four] == [
        {(step, name)} for step in (0, 1) for name in ("code", "pile")
    ]
    even = [dataclasses.replace(cell, cost=1.0) for cell in whole[:48]]
    assert list(map(len, shards.cut(even, 6))) == [8] * 6


def test_no_more_shards_than_cells_and_none_of_nothing() -> None:
    whole = [dataclasses.replace(cell, cost=1.0) for cell in cells(0)[:3]]
    assert shards.cut(whole, 10) == [[cell] for cell in whole]
    assert shards.cut(whole, 10, {cell.task.key for cell in whole}) == []
    assert shards.cut([], 3) == []


def test_one_dear_cell_stands_alone() -> None:
    whole = [dataclasses.replace(cell, cost=1000.0 if place == 5 else 1.0) for place, cell in enumerate(cells(0)[:12])]
    found = shards.cut(whole, 4)
    assert max(map(cost, found)) <= 1000 + 5
    assert list(itertools.chain(*found)) == whole

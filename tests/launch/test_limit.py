import dataclasses

import pytest
from test_plan import cells

from rllc import composition, cost
from rllc.config import Slurm
from rllc.cost import Rate
from rllc.launch import limit


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("90", 5400), ("90:30", 5430), ("1:30:15", 5415), ("2-3", 183600), ("2-3:30", 185400), ("2-3:30:15", 185415),
        ("0:00:10", 10),
    ],
)  # fmt: skip
def test_a_time_limit_is_read_as_slurm_reads_it(time: str, seconds: float) -> None:
    assert limit.seconds(time) == seconds


def test_a_limit_below_the_longest_task_is_told_with_numbers() -> None:
    launch = composition.compose(["launch=slurm", "launch.time='5:00'"]).launch
    assert isinstance(launch, Slurm)
    whole = [dataclasses.replace(cell, cost=1.0) for cell in cells(0, 100)]
    rates = {cost.kind(cell): Rate(100.0, 50.0) for cell in whole}
    assert limit.warning(whole, launch, rates) == ""
    longest = dataclasses.replace(whole[3], cost=2.0)
    rates[cost.kind(longest)] = Rate(100.0, 50.0)
    said = limit.warning([*whole, longest], launch, rates)
    task = longest.task
    assert said == (
        f"launch.time: 5:00 leaves 180 s before the signal of launch.signal_seconds 120, but {task.metric} of "
        f"{task.part} on {task.dataset} is estimated to take 200 s; such tasks will not end."
    )
    assert limit.warning(whole, dataclasses.replace(launch, time=None), rates) == ""
    assert limit.warning(whole, launch, {}) == ""

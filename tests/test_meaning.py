import dataclasses

import pytest
from test_store import TASK

from rllc import meaning
from rllc.task import Task


def of(**changed: object) -> Task:
    return dataclasses.replace(TASK, **changed)


GAMMA = dataclasses.replace(TASK.sampler, gamma=100.0)


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (of(sampler=GAMMA), ["sampler.gamma 200.0, now 100.0"]),
        (of(rows="other"), ["text of code 2c3d, now other"]),
        (of(weights="other"), ["weights of demo-s0 at step 100 0a1b, now other"]),
        (of(loss="kl:aa"), ["loss on code , now kl:aa"]),
        (of(part="L0*", seed=4, metric="prefix"), []),
        (of(step=7, weights="other"), []),
        (of(dataset="pile", rows="other", loss="kl:aa"), []),
        (of(run="demo-s1", weights="other", rows="other"), []),
        (of(metric="prefix", sampler=None, loss="kl:aa"), []),
        (of(sampler=dataclasses.replace(TASK.sampler)), []),
    ],
)
def test_what_a_name_stands_for_must_not_change(new: Task, said: list[str]) -> None:
    assert meaning.conflicts([TASK, of(seed=1)], [of(seed=2), new]) == said


def test_a_plan_of_its_own_may_hold_several() -> None:
    assert meaning.conflicts([], [TASK, of(sampler=GAMMA)]) == []

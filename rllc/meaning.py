"""What must not change while a sweep grows: the sampler, the text of a dataset, the weights of a step."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from rllc.config import differences
from rllc.task import Sampler, Task


def conflicts(old: Iterable[Task], new: Iterable[Task]) -> list[str]:
    """The first thing that means something else in the new tasks, as "sampler.lr 0.01, now 0.02"; else empty."""
    meaning = dict(_meanings(old))
    for place, value in _meanings(new):
        before = meaning.get(place, value)
        if before != value:
            return differences({place[0]: _plain(before)}, {place[0]: _plain(value)})
    return []


def _plain(value: Any) -> Any:
    return dataclasses.asdict(value) if isinstance(value, Sampler) else value


def _meanings(tasks: Iterable[Task]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What a name stands for, with its place; tasks that differ in part and seed alone are looked at once."""
    distinct = {
        (task.run, task.step, task.weights, task.dataset, task.rows, task.loss, id(task.sampler)): task
        for task in tasks
    }  # fmt: skip
    for task in distinct.values():
        yield (f"text of {task.dataset}", task.run), task.rows
        yield (f"weights of {task.run} at step {task.step}",), task.weights
        if task.sampler is not None:
            yield (f"loss on {task.dataset}",), task.loss
            yield ("sampler",), task.sampler

"""The plan of a sweep: one line a task, sorted so that a worker's share loads few checkpoints.

`plan.jsonl` is the border between submitting and working: workers read it and nothing of the configuration.
"""

import dataclasses
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rllc import atomic, meaning
from rllc.mistake import Mistake
from rllc.models import parts
from rllc.task import Sampler, Task

_encode = json.JSONEncoder(separators=(",", ":")).encode
_decode = json.JSONDecoder().raw_decode
_SAMPLER = re.compile(r'"sampler":\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)?\})')


@dataclass(frozen=True)
class Cell:
    """A task and where its inputs lie, relative to the root folder or absolute.

    Attributes:
        task: what to measure.
        checkpoint: file of the weights.
        rows: file of the estimation rows; with `make` the import path of the data.
        cost: estimated floating-point operations.
        labels: file of the checkpoint whose predictions are the labels; "" for the rows' own tokens.
        keep: whether the losses of single tokens are kept, see `rllc.kept`.
        make: import path of what makes the module whose state the checkpoint is; "" for the attention model.
        together: how many heads of the last layer may step together (`models.sharing`); no number depends on it.
    """

    task: Task
    checkpoint: str
    rows: str
    cost: float
    labels: str = ""
    make: str = ""
    keep: bool = False
    together: int = 1


_OTHER = tuple(field.name for field in dataclasses.fields(Cell))[1:]  # fields of a line beside the task


def order(cell: Cell) -> tuple[Any, ...]:
    """What the plan is sorted by."""
    task = cell.task
    chains = task.sampler is None, task.metric  # metrics without chains stand together, for they share a pool
    return task.run, task.step, task.dataset, *chains, parts.place(task.part), task.part, task.seed


def grow(old: Iterable[Cell], new: Iterable[Cell], sweep: Path) -> list[Cell]:
    """The old plan with the new cells; a plan never shrinks.

    Raises:
        Mistake: an old number would change its meaning: another sampler, other weights or other text under old names.
    """
    old, new = list(old), list(new)
    if what := meaning.conflicts((cell.task for cell in old), (cell.task for cell in new)):
        raise Mistake(
            f"name: {sweep} holds numbers of another configuration ({'; '.join(what)}); choose another name=."
        )
    return sorted({cell.task.key: cell for cell in [*old, *new]}.values(), key=order)


def write(sweep: Path, plan: Iterable[Cell]) -> None:
    """Write plan.jsonl, whole or not at all."""
    write_lines(sweep / "plan.jsonl", plan)


def write_lines(path: Path, plan: Iterable[Cell]) -> None:
    """Write a file of cells, one a line, whole or not at all."""
    with atomic.replace(path) as file:
        for cell in plan:
            other = {name: getattr(cell, name) for name in _OTHER}
            file.write(f'{{"task":{cell.task.json()},{_encode(other)[1:]}\n'.encode())


def read(sweep: Path) -> list[Cell]:
    """Read plan.jsonl; empty when there is none yet.

    Raises:
        Mistake: a line is damaged.
    """
    file = sweep / "plan.jsonl"
    return read_lines(file) if file.exists() else []


def read_lines(path: Path) -> list[Cell]:
    """Read a file of cells.

    Raises:
        Mistake: a line is damaged.
    """
    samplers: dict[str, Sampler] = {}
    cells: list[Cell] = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                cells.append(_cell(line.decode(), samplers))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise Mistake(
                    f"name: {path}, line {number} is damaged; delete the file: `rllc sweep` makes it again from the "
                    "configuration, and results are kept."
                ) from error
    return cells


def _cell(line: str, samplers: dict[str, Sampler]) -> Cell:
    """One line; of equal samplers only one is made, which saves most of the time and memory of a long plan."""
    sampler = None
    if found := _SAMPLER.search(line):
        text = found[1]
        sampler = samplers.get(text)
        if sampler is None:
            sampler = samplers[text] = Sampler.of(json.loads(text))
        line = f"{line[: found.start(1)]}null{line[found.end(1) :]}"
    fields, end = _decode(line)
    if line[end:].strip():
        raise ValueError("more than one cell on a line")
    task = Task(**{**fields.pop("task"), "sampler": sampler})
    return Cell(task, **fields)


def required(sweep: Path) -> list[Cell]:
    """Read plan.jsonl, which has to be there.

    Raises:
        Mistake: there is no plan, or a line is damaged.
    """
    cells = read(sweep)
    if not cells:
        raise Mistake(f"name: there is no plan in {sweep}; run `rllc sweep` first.")
    return cells

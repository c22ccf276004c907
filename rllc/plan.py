"""The plan of a sweep: one line a task, sorted so that a worker's share loads few checkpoints.

`plan.jsonl` is the border between submitting and working: workers read it and nothing of the configuration.
"""

import dataclasses
import itertools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rllc import atomic, legal, meaning
from rllc.config import Grid, Model
from rllc.measured import METRICS, WHOLE, Of
from rllc.mistake import Mistake
from rllc.models import parts
from rllc.models.layout import groups, names, tied
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
    """

    task: Task
    checkpoint: str
    rows: str
    cost: float
    labels: str = ""
    make: str = ""
    keep: bool = False


_OTHER = tuple(field.name for field in dataclasses.fields(Cell))[1:]  # fields of a line beside the task


@dataclass(frozen=True)
class Checkpoint:
    """One step of a run: its file, content hash and model."""

    run: str
    step: int
    path: str
    weights: str
    model: Model


@dataclass(frozen=True)
class Dataset:
    """Estimation rows of one dataset for the runs of a sweep: name, content hash, file; `Task.loss`, file of labels."""

    name: str
    rows: str
    path: str
    loss: str = ""
    labels: str = ""


WEIGHTS = Dataset("weights", "", "")  # what is read off the weights alone has no text


def cells(
    checkpoints: Sequence[Checkpoint], datasets: Sequence[Dataset], repeats: Dataset, *, grid: Grid, sampler: Sampler
) -> list[Cell]:
    """All cells of the grid, sorted by run, step, dataset, layer and part.

    Raises:
        Mistake: a part matches nothing in a run's model, or the backend does not compute it.
    """
    found = []
    for model in {given.model for given in checkpoints}:
        legal.check_backend(sampler, model)
    parts_of_model = {model: parts_of(model, grid.parts) for model in {given.model for given in checkpoints}}
    wanted = {(model, metric): _measured(flat, METRICS[metric].of)
              for model, flat in parts_of_model.items() for metric in grid.metrics}  # fmt: skip
    costs = {(model, metric, part): _cost(part, model, sampler if metric == "llc" else None, METRICS[metric].gradients)
             for (model, metric), flat in wanted.items() for part in flat}  # fmt: skip
    for checkpoint, metric in itertools.product(checkpoints, grid.metrics):
        kind, chains = METRICS[metric], sampler if metric == "llc" else None
        for dataset in {"datasets": datasets, "repeats": [repeats], "weights": [WEIGHTS]}[kind.on]:
            for part in wanted[checkpoint.model, metric]:
                for seed in grid.seeds if kind.drawn else [0]:
                    task = Task(
                        run=checkpoint.run, weights=checkpoint.weights, step=checkpoint.step, part=part,
                        dataset=dataset.name, rows=dataset.rows, metric=metric, seed=seed,
                        sampler=chains, loss=dataset.loss if chains else "",
                    )  # fmt: skip
                    labels = dataset.labels if chains else ""
                    cost = costs[checkpoint.model, metric, part]
                    found.append(Cell(task, checkpoint.path, dataset.path, cost, labels))
    return sorted(found, key=order)


def _measured(flat: Sequence[str], of: Of) -> list[str]:
    """The parts that a metric is measured of, out of those of the grid."""
    heads = [part for part in flat if parts.place(part)[1] >= 0]
    if of == "pairs":
        places = [(parts.place(part)[0], part) for part in heads]
        return [f"{low}+{high}" for (below, low), (above, high) in itertools.product(places, places) if below < above]
    return {"parts": list(flat), "heads": heads, "model": [WHOLE]}[of]


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


def parts_of(model: Model, wanted: Sequence[str]) -> list[str]:
    """The parts of the grid, "heads" and the like spelt out, each checked against the model's names."""
    flat = [name for name, _, _ in names(model)]
    spelt = [part for item in wanted for part in parts.spelt(item, flat)]
    for part in spelt:
        parts.of(model, part)
    return list(dict.fromkeys(spelt))


def caution(model: Model, part: str) -> str:
    """What to say of a part that turns out to be the whole model, or to hold a tied array; else empty."""
    if part in parts.WORDS:
        return ""
    chosen, flat = parts.of(model, part), [name for name, _, _ in names(model)]
    if said := parts.caution(part, chosen, flat):
        return said
    held = [f"{first} and {further}" for further, first in tied(model).items() if first in chosen and part != "*"]
    return f"{part!r} moves {held[0]}, which are one tied array" if held else ""


def _cost(part: str, model: Model, sampler: Sampler | None, gradients: int) -> float:
    """Floating-point operations, roughly: matrix products of what has to be computed again at each step.

    Without a sampler that of so many rows' `gradients`; where there are none, of attention patterns.
    """
    layer, _ = parts.place(part)
    attention = 4 * model.d_head * ((model.n_heads + groups(model)) * model.d_model + model.n_ctx * model.n_heads)
    mlp = (6 if model.gated else 4) * model.d_model * model.d_mlp
    unembed = 2 * model.d_model * model.d_vocab
    rows = sampler.chains * sampler.steps * sampler.batch if sampler else gradients
    if not rows:
        return 1024.0 * model.n_ctx * attention / model.n_heads
    above = model.n_layers - max(layer, 0) - (1 if layer >= 0 else 0)
    own = 3 * (attention / model.n_heads) + (0 if model.parallel else 2 * mlp)
    return float(rows * model.n_ctx * (own + 2 * above * (attention + mlp) + 2 * unembed))

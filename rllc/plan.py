"""The plan of a sweep: one line a task, sorted so that a worker's share loads few checkpoints.

`plan.jsonl` is the border between submitting and working: workers read it and nothing of the configuration.
"""

import dataclasses
import itertools
import json
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rllc import atomic
from rllc.config import Grid, Model, differences
from rllc.mistake import Mistake
from rllc.models import parts
from rllc.models.layout import names
from rllc.task import Sampler, Task


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


def cells(
    checkpoints: Sequence[Checkpoint], datasets: Sequence[Dataset], repeats: Dataset, *, grid: Grid, sampler: Sampler
) -> list[Cell]:
    """All cells of the grid, sorted by run, step, dataset, layer and part.

    Raises:
        Mistake: a part matches nothing in a run's model.
    """
    found = []
    for checkpoint in checkpoints:
        wanted = parts_of(checkpoint.model, grid.parts)
        heads = [part for part in wanted if parts.place(part)[1] >= 0]
        for metric in grid.metrics:
            for dataset in [repeats] if metric == "prefix" else datasets:
                for part in wanted if metric == "llc" else heads:
                    for seed in grid.seeds if metric == "llc" else [0]:
                        task = Task(
                            run=checkpoint.run, weights=checkpoint.weights, step=checkpoint.step, part=part,
                            dataset=dataset.name, rows=dataset.rows, metric=metric, seed=seed,
                            sampler=sampler if metric == "llc" else None, loss=dataset.loss if metric == "llc" else "",
                        )  # fmt: skip
                        labels = dataset.labels if metric == "llc" else ""
                        found.append(Cell(task, checkpoint.path, dataset.path, _cost(task, checkpoint.model), labels))
    return sorted(found, key=order)


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
    meaning = {place: value for cell in old for place, value in _meaning(cell.task)}
    for cell in new:
        for place, value in _meaning(cell.task):
            if place in meaning and meaning[place] != value:
                what = differences({place[0]: meaning[place]}, {place[0]: value})
                raise Mistake(
                    f"name: {sweep} holds numbers of another configuration ({'; '.join(what)}); choose another name=."
                )
    return sorted({cell.task.key: cell for cell in [*old, *new]}.values(), key=order)


def write(sweep: Path, plan: Iterable[Cell]) -> None:
    """Write plan.jsonl, whole or not at all."""
    lines = (json.dumps(dataclasses.asdict(cell), separators=(",", ":")) for cell in plan)
    atomic.write_text(sweep / "plan.jsonl", "".join(f"{line}\n" for line in lines))


def read(sweep: Path) -> list[Cell]:
    """Read plan.jsonl; empty when there is none yet."""
    file = sweep / "plan.jsonl"
    if not file.exists():
        return []
    fields = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [Cell(**{**line, "task": Task.of(line["task"])}) for line in fields]


def required(sweep: Path) -> list[Cell]:
    """Read plan.jsonl, which has to be there.

    Raises:
        Mistake: there is no plan.
    """
    cells = read(sweep)
    if not cells:
        raise Mistake(f"name: there is no plan in {sweep}; run `rllc sweep` first.")
    return cells


def slices(plan: Sequence[Cell], workers: int, done: Set[str] = frozenset()) -> list[slice]:
    """Contiguous slices of the plan, one for each worker, cut so that what is not done costs about the same in each."""
    costs = [0.0 if cell.task.key in done else cell.cost for cell in plan]
    total, before, starts = sum(costs) or 1.0, 0.0, [0]
    for place, cost in enumerate(costs):
        owner = min(int((before + cost / 2) / total * workers), workers - 1)
        starts += [place] * (owner + 1 - len(starts))
        before += cost
    starts += [len(costs)] * (workers + 1 - len(starts))
    return [slice(start, stop) for start, stop in itertools.pairwise(starts)]


def parts_of(model: Model, wanted: Sequence[str]) -> list[str]:
    """The parts of the grid, "heads" spelt out, each checked against the model's names."""
    flat = [name for name, _, _ in names(model)]
    spelt = [part for item in wanted for part in (parts.heads(flat) if item == "heads" else [item])]
    for part in spelt:
        parts.select(part, flat)
    return list(dict.fromkeys(spelt))


def caution(model: Model, part: str) -> str:
    """What to say of a part that turns out to be the whole model; else empty."""
    flat = [name for name, _, _ in names(model)]
    return "" if part == "heads" else parts.caution(part, parts.select(part, flat), flat)


def _meaning(task: Task) -> list[tuple[tuple[str, ...], Any]]:
    """What must not change in a sweep: the sampler, the text of a dataset, the weights of a step."""
    fixed: list[tuple[tuple[str, ...], Any]] = [
        ((f"text of {task.dataset}", task.run), task.rows),
        ((f"weights of {task.run} at step {task.step}",), task.weights),
    ]
    if task.sampler is None:
        return fixed
    return [*fixed, ((f"loss on {task.dataset}",), task.loss), (("sampler",), dataclasses.asdict(task.sampler))]


def _cost(task: Task, model: Model) -> float:
    """Floating-point operations, roughly: matrix products of what has to be computed again at each step."""
    layer, _ = parts.place(task.part)
    per_layer = 8 * model.d_model * model.n_heads * model.d_head + 4 * model.n_ctx * model.n_heads * model.d_head
    unembed = 2 * model.d_model * model.d_vocab
    if task.sampler is None:
        return 1024.0 * model.n_ctx * per_layer / model.n_heads
    above = model.n_layers - max(layer, 0) - (1 if layer >= 0 else 0)
    head = per_layer / model.n_heads
    tokens = task.sampler.chains * task.sampler.steps * task.sampler.batch * model.n_ctx
    return float(tokens * (3 * head + 2 * above * per_layer + 2 * unembed))

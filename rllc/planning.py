"""The cells that a grid asks for: which metrics, of which parts, on which data, and what each costs."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from rllc import legal
from rllc.config import Grid, Model
from rllc.measured import METRICS, WHOLE, Of
from rllc.models import parts, sharing
from rllc.models.layout import groups, names, tied
from rllc.plan import Cell, order
from rllc.task import Sampler, Task


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
    """Estimation rows of one dataset for the runs of a sweep: name, content hash, file; `Task.loss`, file of labels.

    `count` is how many rows there are, 0 where that is not yet known.
    """

    name: str
    rows: str
    path: str
    loss: str = ""
    labels: str = ""
    count: int = 0


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
                    steps = _together(task, checkpoint.model, dataset.count)
                    found.append(Cell(task, checkpoint.path, dataset.path, cost, labels, together=steps))
    return sorted(found, key=order)


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


def _measured(flat: Sequence[str], of: Of) -> list[str]:
    """The parts that a metric is measured of, out of those of the grid."""
    heads = [part for part in flat if parts.place(part)[1] >= 0]
    if of == "pairs":
        places = [(parts.place(part)[0], part) for part in heads]
        return [f"{low}+{high}" for (below, low), (above, high) in itertools.product(places, places) if below < above]
    return {"parts": list(flat), "heads": heads, "model": [WHOLE]}[of]


def _together(task: Task, model: Model, rows: int) -> int:
    """How many heads may step together with a task; those of other parts stand alone."""
    layer, head = parts.place(task.part)
    if task.sampler is None or task.loss or head < 0 or layer != model.n_layers - 1:
        return 1
    return sharing.together(model, task.sampler, rows)


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

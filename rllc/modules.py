"""Sweeps over the checkpoints of any torch module, named by import paths: what is planned, and what a worker opens."""

import functools
import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rllc import runs
from rllc.config import Config, Module
from rllc.mistake import Mistake, words
from rllc.models import parts
from rllc.plan import Cell, order
from rllc.task import Estimate, Task
from rllc.zoo import arrays, states
from rllc.zoo.steps import checkpoints, choose

if TYPE_CHECKING:
    from torch import nn

    from rllc.models.module import Data, Loss


@dataclass(frozen=True)
class Opened:
    """A module with a checkpoint's weights, its loss, and the samples of one dataset."""

    module: "nn.Module"
    loss: "Loss"
    data: "Data"


def check(config: Config, asked: Module) -> dict[str, list[int]]:
    """The steps of the run, once the module is made and its parts, loss and data are seen to work together.

    Raises:
        Mistake: an import path, checkpoint, step, part or sample cannot be used, or what a path names raises.
    """
    from rllc.models.module import ModulePart, arrays

    saved, run = checkpoints(Path(config.path or "")), runs.named(config)[0].name
    steps = choose(config.grid.steps or saved, list(saved), run, "exact")
    module, loss = _made(asked.make), found(asked.loss, "module.loss")
    states.put(next(iter(saved.values())), module)
    names, tied = arrays(module)
    for part in config.grid.parts:
        chosen = parts.select(part, [*names, *tied], tied=tied)
        if caution := parts.caution(part, chosen, list(names)):
            print(f"rllc: grid.parts: {caution}", file=sys.stderr)
    sampler = config.sampler
    for dataset in config.grid.datasets or asked.data:
        data = samples(asked.data[dataset])
        with _told("module.loss", asked.loss, on=f" on module.data.{dataset}"):
            ModulePart(module, loss, data, "*", chains=1, batch=sampler.batch, dtype=sampler.dtype)
    return {run: steps}


def cells(config: Config, asked: Module, steps: dict[str, list[int]]) -> list[Cell]:
    """All cells of the grid, in the order of a plan."""
    from rllc.models.module import content

    saved, sampler = checkpoints(Path(config.path or "")), config.sampler
    (run,) = steps
    rows = {name: content(enumerate(_listed(samples(asked.data[name])))) for name in config.grid.datasets or asked.data}
    cost = float(sampler.chains * sampler.steps * sampler.batch)
    planned = []
    for step in steps[run]:
        weights, file = arrays.digest(saved[step]), runs.relative(saved[step], config)
        for dataset, digest in rows.items():
            for part in config.grid.parts:
                for seed in config.grid.seeds:
                    task = Task(run, weights, step, part, dataset, digest, "llc", seed, sampler, asked.loss)
                    planned.append(Cell(task, file, asked.data[dataset], cost, make=asked.make))
    return sorted(planned, key=order)


def opened(root: Path, cell: Cell) -> Opened:
    """What a cell is measured on.

    Raises:
        Mistake: the checkpoint or the data is not what was planned.
    """
    from rllc.models.module import content

    if arrays.digest(root / cell.checkpoint) != cell.task.weights:
        raise Mistake(f"{root / cell.checkpoint} is no longer the file that was planned.")
    data = samples(cell.rows)
    if content(enumerate(_listed(data))) != cell.task.rows:
        raise Mistake(f"{cell.rows} no longer gives the samples that were planned.")
    module = _made(cell.make)
    states.put(root / cell.checkpoint, module)
    return Opened(module, found(cell.task.loss, "module.loss"), data)


def measure(task: Task, opened: Opened) -> Estimate:
    """Estimate one task of a module."""
    from rllc.metrics import llc

    return llc.measure_module(task, opened.module, opened.loss, opened.data)


def found(path: str, key: str) -> Any:
    """What an import path "package.module:name" stands for; the folder of work is searched too.

    Raises:
        Mistake: there is no such module or name.
    """
    where, colon, name = path.partition(":")
    if not colon:
        raise Mistake(f"{key}: {path!r} is not an import path, as mypackage.mymodule:name.")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    with _told(key, path, what="cannot be imported"):
        return getattr(importlib.import_module(where), name)


@contextmanager
def _told(key: str, path: str, *, what: str = "fails", on: str = "") -> Iterator[None]:
    """Turn what the user's own code raises into a mistake that names it."""
    try:
        yield
    except Mistake:
        raise
    except Exception as error:  # anything can be wrong with it
        raise Mistake(f"{key}: {path!r} {what}{on} ({type(error).__name__}: {words(error)}).") from error


@functools.cache
def samples(path: str) -> "Data":
    """The data that an import path names: tensors, or what returns them."""
    data: Data = found(path, "module.data")
    with _told("module.data", path):
        return data() if callable(data) else data


def _made(path: str) -> "nn.Module":
    from torch import nn

    make = found(path, "module.make")
    with _told("module.make", path):
        module = make()
    if not isinstance(module, nn.Module):
        raise Mistake(f"module.make: {path!r} returned a {type(module).__name__}, not a torch.nn.Module.")
    return module.eval()


def _listed(data: "Data") -> Sequence[Any]:
    import torch

    return [data] if isinstance(data, torch.Tensor) else data

"""The runs of a source: their folders here, their model, and their checkpoints, fetched one after the other."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from rllc import progress
from rllc.config import Config, Model, Source
from rllc.data import tokenizer
from rllc.mistake import Mistake
from rllc.zoo import sources


def folders(config: Config, source: Source) -> list[Path]:
    """The folder of each run, where its tokenizer and what points to its checkpoints lie."""
    names = sources.names(source)
    if len(names) == 1 and config.run != "stdlib":
        names = [config.run]
    return [Path(config.root, "runs", name) for name in names]


def models(source: Source, runs: Sequence[Path]) -> list[Model]:
    """The model of each run as it is measured.

    Raises:
        Mistake: they differ in vocabulary or context, or have less context than is asked for.
    """
    found = [sources.model(source, index, run) for index, run in enumerate(runs)]
    first = found[0]
    for other in found:
        if (other.n_ctx, other.d_vocab) != (first.n_ctx, first.d_vocab):
            raise Mistake(f"source.repos: {source.repos} differ in n_ctx or d_vocab; give each a sweep.")
    return [measured(each, source) for each in found]


def measured(model: Model, source: Source) -> Model:
    """The model with the length of the rows that it is measured on as its n_ctx.

    Raises:
        Mistake: that is more than the model has.
    """
    if source.context is not None and source.context > model.n_ctx:
        raise Mistake(f"source.context: {source.context} is more than the model's n_ctx, {model.n_ctx}.")
    return dataclasses.replace(model, n_ctx=source.context or model.n_ctx)


def prepare(source: Source, runs: Sequence[Path]) -> None:
    """Bring the tokenizers here.

    Raises:
        Mistake: there is none, it cannot be had, or the runs have different ones.
    """
    for index, run in enumerate(runs):
        sources.prepare(source, index, run)
    if len({tokenizer.digest(run / "tokenizer.json") for run in runs}) > 1:
        raise Mistake(f"source.repos: {source.repos} have different tokenizers; give each a sweep.")


def fetch(source: Source, index: int, run: Path, *, steps: Sequence[int]) -> dict[int, Path]:
    """The checkpoint of each step, downloaded where it is not on this machine.

    Raises:
        Mistake: one cannot be had, or lacks the weights.
        OSError: the disk is full.
    """
    found = {}
    with progress.bar(f"checkpoints of {run.name}") as show:
        for count, step in enumerate(steps):
            show(count, len(steps))
            found[step] = sources.fetch(source, index, run, step=step)
    return found

"""The runs of a sweep: their text, tokenizer and training, or a folder of checkpoints that is there already."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rllc import atomic, elsewhere, labels, launch, planning, progress, train
from rllc.config import Config, Model
from rllc.data import repeats, rows, tokenizer
from rllc.data.documents import described, fingerprint, train_documents
from rllc.mistake import Mistake
from rllc.zoo import folder, sources
from rllc.zoo.steps import choose

PREFIX_ROWS = 256  # random sequences on which prefix matching is scored


@dataclass(frozen=True)
class Run:
    """One training run: its name, seed (None for one that was not trained here), folder and tokenizer."""

    name: str
    seed: int | None
    path: Path
    tokenizer: Path


def named(config: Config) -> list[Run]:
    """The runs of a configuration: one for each training seed, the one at `path`, or those of `source`."""
    if config.source is not None:
        folders = elsewhere.folders(config, config.source)
        return [Run(path.name, None, path, path / "tokenizer.json") for path in folders]
    if config.path is not None:
        path = Path(config.path).resolve()
        return [Run(path.name if config.run == "stdlib" else config.run, None, path, path / "tokenizer.json")]
    places = {seed: Path(config.root, "runs", f"{config.run}-s{seed}") for seed in config.train.seeds}
    return [Run(path.name, seed, path, path / "tokenizer.json") for seed, path in places.items()]


def steps(config: Config) -> dict[str, list[int]]:
    """The steps of the grid for each run, checked against those that are, or will be, saved.

    Raises:
        Mistake: a step is not saved; the nearest that is is named.
    """
    found = {}
    for index, run in enumerate(named(config)):
        if config.source is not None:
            saved = list(sources.saved(config.source, index, run.path))
        elif run.seed is None:
            saved = list(folder.checkpoints(run.path))
        else:
            saved = train.saved_steps(config.train.checkpoints, config.train.steps)
        match = config.source.match if config.source else "exact"
        found[run.name] = choose(config.grid.steps or saved, saved, run.name, match)
    return found


def model(config: Config) -> Model:
    """The model of the first run; see `models`."""
    return next(iter(models(config).values()))


def models(config: Config) -> dict[str, Model]:
    """The model of each run: of the configuration, or of the first checkpoint of a run that was made elsewhere.

    Its n_ctx is the length of the rows that it is measured on, which a source may set below that of its training.

    Raises:
        Mistake: a module is measured, which has no such model; the runs have models of other vocabulary or context; or
            `source.context` is more than the model has.
    """
    if config.module is not None:
        raise Mistake("model: module is for `rllc sweep` and what reads its results; this needs an attention model.")
    found = named(config)
    if config.source is not None:
        shapes = elsewhere.models(config.source, [run.path for run in found])
        return {run.name: shape for run, shape in zip(found, shapes, strict=True)}
    if config.path is None:
        return {run.name: config.model for run in found}
    return {run.name: folder.shape(next(iter(folder.checkpoints(run.path).values()))) for run in found}


def prepare(config: Config) -> None:
    """Make what training needs that is not there: tokenizer, training rows, and the run's own configuration.

    Raises:
        Mistake: the text cannot be read or is too little, or a run's folder holds another run.
    """
    if config.source is not None:
        elsewhere.prepare(config.source, [run.path for run in named(config)])
    if config.elsewhere:
        return
    dataset, data = config.data[config.train.data], Path(config.root, "data")
    ingredients = json.dumps([fingerprint(dataset), config.model.d_vocab, described(dataset)], sort_keys=True)
    shared = data / f"tokenizer-{hashlib.sha256(ingredients.encode()).hexdigest()[:16]}.json"
    for run in named(config):
        if not (run.tokenizer.exists() and (run.path / "config.yaml").exists()):
            if not shared.exists():
                _make_tokenizer(config, shared)
            with atomic.replace(run.tokenizer) as file, shared.open("rb") as source:
                shutil.copyfileobj(source, file)
        training = _training_rows(config, run)
        wanted = {
            **train.as_dict(config.model, config.train, run.seed or 0),
            "tokenizer": tokenizer.digest(run.tokenizer),
            "rows": str(Path("../..") / training.path.relative_to(config.root)),
        }
        train.prepare(run.path, wanted)
    if not trained(config):
        print(_seen(config, training))


def trained(config: Config) -> bool:
    """Whether every checkpoint of every run is there."""
    return config.elsewhere or all(train.finished(run.path) for run in named(config))


def fit(config: Config, *, watch: Callable[[], None] = lambda: None) -> int:
    """Train the runs that are not finished, several at once, calling `watch` meanwhile; the highest exit code."""
    waiting = [run for run in named(config) if not train.finished(run.path)]
    here, processes = launch.here(config.launch), config.train.processes
    # a training takes every GPU where nothing else is said
    at_once = 1 if processes is None and launch.gpus() else max(1, launch.workers(here) // (processes or 1))
    total, own = len(waiting) * config.train.steps, f"--parent={os.getpid()}"

    def look() -> None:
        show(sum(train.done(run.path) for run in waiting), total)
        watch()

    with _owned(waiting), progress.bar(f"train {', '.join(run.name for run in waiting)}") as show:
        return launch.run(
            [
                [sys.executable, "-m", "rllc.train", str(run.path), f"--processes={processes or 0}", own]
                for run in waiting
            ],
            threads=here.threads,
            at_once=min(len(waiting), at_once),
            watch=look,
        )


def datasets(config: Config, model: Model) -> tuple[list[planning.Dataset], planning.Dataset]:
    """Estimation rows of each dataset of the grid, and the random sequences for prefix matching.

    Raises:
        Mistake: a text cannot be read or gives fewer rows than a minibatch; a tokenizer is not the model's; the model
            whose predictions are the labels is not there or does not fit.
    """
    run, data = named(config)[0], Path(config.root, "data")
    bpe = tokenizer.load(run.tokenizer)
    if bpe.d_vocab > model.d_vocab:
        raise Mistake(f"run: {run.tokenizer} has {bpe.d_vocab} entries, but the model's d_vocab is {model.d_vocab}.")
    exclude = None if config.elsewhere else _training_rows(config, run).path
    found = [
        rows.build(
            name, config.data[name], tokenizer=run.tokenizer, n_ctx=model.n_ctx, split="pool", folder=data,
            at_least=config.sampler.batch, exclude=exclude,
        )
        for name in config.grid.datasets or config.data
    ]  # fmt: skip
    twice = repeats.build(model.d_vocab, model.n_ctx, rows=PREFIX_ROWS, seed=0, folder=data, bos=bpe.bos)
    planned = []
    for each in found:
        loss, baseline = labels.find(config, each.name, model, run.tokenizer)
        where = relative(baseline, config) if baseline else ""
        planned.append(
            planning.Dataset(each.name, each.digest, relative(each.path, config), loss, where, len(each.array()))
        )
    return planned, planning.Dataset(twice.name, twice.digest, relative(twice.path, config))


def checkpoints(config: Config, steps: dict[str, list[int]]) -> list[planning.Checkpoint]:
    """Every checkpoint of the grid with its content hash, whole and of the right shape; from the hub where it must be.

    Raises:
        Mistake: a file is truncated or of another architecture.
    """
    found = []
    for index, run in enumerate(named(config)):
        if config.source is None:
            files = folder.checkpoints(run.path)
        else:
            files = elsewhere.fetch(config.source, index, run.path, steps=steps[run.name])
        first = folder.shape(files[steps[run.name][0]])
        for step in steps[run.name]:
            model, digest = folder.describe(files[step])
            if model != first:
                raise Mistake(f"run: {files[step]} is of another architecture than step {steps[run.name][0]}.")
            measured = elsewhere.measured(model, config.source) if config.source else model
            found.append(planning.Checkpoint(run.name, step, relative(files[step], config), digest, measured))
    return found


def _texts(config: Config) -> Iterator[str]:
    with rows.named(config.train.data):
        yield from train_documents(config.data[config.train.data])


def _make_tokenizer(config: Config, path: Path) -> None:
    """Fetch the tokenizer that is asked for, or make one from the training text.

    Raises:
        Mistake: it cannot be had, has other entries than the model, or the text gives too few.
    """
    wanted, d_vocab = config.train.tokenizer, config.model.d_vocab
    if wanted is None:
        tokenizer.train(_texts(config), d_vocab, path)
        return
    text = sources.tokenizer_text(wanted, config.train.bos, key="train")
    atomic.write_text(path, text)
    if (found := tokenizer.load(path).d_vocab) > d_vocab:
        path.unlink()
        raise Mistake(f"train.tokenizer: {wanted} has {found} entries, but model.d_vocab is {d_vocab}.")


def _seen(config: Config, training: rows.Rows) -> str:
    """How often a training sees each row of its text, on average."""
    count, drawn = len(training.array()), config.train.steps * config.train.batch
    return (
        f"train: {drawn:,} rows of {config.model.n_ctx} tokens are drawn from the {count:,} of {training.name}, "
        f"each {drawn / count:.3g} times on average"
    )


def _training_rows(config: Config, run: Run) -> rows.Rows:
    return rows.build(
        config.train.data, config.data[config.train.data], tokenizer=run.tokenizer, n_ctx=config.model.n_ctx,
        split="train", folder=Path(config.root, "data"), at_least=config.train.batch,
    )  # fmt: skip


def relative(path: Path, config: Config) -> str:
    """Relative to the root where it lies in it, so that the root can be moved; else absolute."""
    root = Path(config.root).resolve()
    path = path.resolve()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


@contextmanager
def _owned(runs: list[Run]) -> Iterator[Any]:
    with ExitStack() as stack:
        for run in runs:
            stack.enter_context(atomic.owner(run.path, "run"))
        yield

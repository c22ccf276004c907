"""The runs of a sweep, with what is measured of them: their steps, models, checkpoints and text."""

from dataclasses import dataclass
from pathlib import Path

from rllc import elsewhere, labels, planning, train
from rllc.config import Config, Model
from rllc.data import repeats, rows, tokenizer
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
    exclude = None if config.elsewhere else training_rows(config, run).path
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


def training_rows(config: Config, run: Run) -> rows.Rows:
    """The rows that a run trained here reads, made where they are not there."""
    return rows.build(
        config.train.data, config.data[config.train.data], tokenizer=run.tokenizer, n_ctx=config.model.n_ctx,
        split="train", folder=Path(config.root, "data"), at_least=config.train.batch,
    )  # fmt: skip


def relative(path: Path, config: Config) -> str:
    """Relative to the root where it lies in it, so that the root can be moved; else absolute."""
    root = Path(config.root).resolve()
    path = path.resolve()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)

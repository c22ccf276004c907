"""Makes the runs of a sweep: the tokenizer, the rows, the settings of each, and the processes that train them."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rllc import atomic, elsewhere, launch, progress, train
from rllc.config import Config
from rllc.data import rows, tokenizer
from rllc.data.documents import described, fingerprint, train_documents
from rllc.mistake import Mistake
from rllc.runs import Run, named, training_rows
from rllc.zoo import sources


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
    asked = [config.train.tokenizer, config.train.bos] if config.train.tokenizer else []
    ingredients = json.dumps([fingerprint(dataset), config.model.d_vocab, described(dataset), *asked], sort_keys=True)
    shared = data / f"tokenizer-{hashlib.sha256(ingredients.encode()).hexdigest()[:16]}.json"
    for run in named(config):
        if not (run.tokenizer.exists() and (run.path / "config.yaml").exists()):
            if not shared.exists():
                _make_tokenizer(config, shared)
            with atomic.replace(run.tokenizer) as file, shared.open("rb") as source:
                shutil.copyfileobj(source, file)
        training = training_rows(config, run)
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


@contextmanager
def _owned(runs: list[Run]) -> Iterator[Any]:
    with ExitStack() as stack:
        for run in runs:
            stack.enter_context(atomic.owner(run.path, "run"))
        yield

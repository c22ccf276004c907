"""The packed rows of a dataset's split, kept in content-named files and made once."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rllc import atomic
from rllc.config import Dataset
from rllc.data import building, packing, probes, recipes
from rllc.data.documents import TOKENS, components, described, fingerprint, weights
from rllc.data.packing import Tokens
from rllc.data.split import NAMES, select
from rllc.data.spool import Spool, spool
from rllc.data.tokenizer import Tokenizer, digest, load
from rllc.mistake import Mistake

_SHUFFLE = 0  # seed of the order of the pool: part of what the rows are, no option


@dataclass(frozen=True)
class Rows:
    """Rows of tokens on disk, (n_rows, n_ctx), each starting with BOS.

    Attributes:
        name: of the dataset.
        digest: 16 hexadecimal digits of the SHA-256 of type, shape and bytes.
        path: of the .npy file.
    """

    name: str
    digest: str
    path: Path

    def array(self) -> Tokens:
        """Map the rows into memory, read only."""
        rows: Tokens = np.load(self.path, mmap_mode="r", allow_pickle=False)
        return rows


def build(
    name: str,
    dataset: Dataset,
    *,
    tokenizer: Path,
    n_ctx: int,
    split: str,
    folder: Path,
    at_least: int = 1,
    exclude: Path | None = None,
) -> Rows:
    """Find or make the rows of one split and write them to folder/<name>-<digest>.npy.

    Args:
        name: of the dataset, for the file and for messages.
        dataset: where the text comes from.
        tokenizer: path of a tokenizer.json.
        n_ctx: tokens of a row.
        split: "train" keeps all rows, those of the smaller component of a mix several times to fill its weight;
            "pool" keeps at most `dataset.pool` shuffled rows and none of them twice.
        folder: where the rows are kept; their recipes lie in its folder recipes.
        at_least: rows that are needed.
        exclude: file of training rows that was made here; rows equal to one of them are dropped.

    Raises Mistake, naming the dataset, if its text cannot be read or gives fewer rows than needed.
    """
    recipe = recipes.place(folder, _ingredients(name, dataset, tokenizer, n_ctx, split, exclude))
    entry = recipes.find(recipe)
    if entry is None:
        with building.alone(recipe.with_suffix(".building")):
            entry = recipes.find(recipe)  # what another process has built meanwhile
            if entry is None:
                bpe = load(tokenizer)
                with spool(folder, n_ctx, packing.dtype(bpe.d_vocab)) as keep:
                    with named(name):
                        if dataset.source in TOKENS:
                            rows = _drawn(dataset, tokenizer, n_ctx, folder=folder, exclude=exclude)
                        elif split == "train":
                            rows = _training(dataset, bpe, n_ctx, keep)
                        else:
                            rows = _pool(dataset, bpe, n_ctx, keep, exclude)
                    made = put(name, rows, folder)
                entry = recipes.Entry(made.digest, made.path.name, len(rows), made.path.stat().st_size)
                recipes.put(recipe, entry)
    if entry.rows < at_least:
        raise Mistake(
            f"data.{name}: its text gives {entry.rows} rows of {n_ctx} tokens for the split {split!r},"
            f" but {at_least} are needed; give it more text or lower the batch."
        )
    return Rows(name, entry.digest, folder / entry.path)


def put(name: str, rows: Tokens, folder: Path) -> Rows:
    """Write rows to folder/<name>-<digest>.npy; the same rows under the same name are the same file."""
    found = content_hash(rows)
    path = folder / f"{name}-{found}.npy"
    if not _holds(path, found):
        with atomic.replace(path) as file:
            np.save(file, rows, allow_pickle=False)
    return Rows(name, found, path)


def _holds(path: Path, digest: str) -> bool:
    try:
        return content_hash(np.load(path, mmap_mode="r", allow_pickle=False)) == digest
    except (OSError, ValueError):  # missing, cut or no array
        return False


def content_hash(rows: Tokens) -> str:
    """16 hexadecimal digits of the SHA-256 of type, shape and bytes."""
    content = hashlib.sha256(f"{rows.dtype.str}:{rows.shape}:".encode())
    content.update(np.ascontiguousarray(rows).data)
    return content.hexdigest()[:16]


def _ingredients(
    name: str, dataset: Dataset, tokenizer: Path, n_ctx: int, split: str, exclude: Path | None
) -> dict[str, Any]:
    """List what the rows depend on; reads file names, sizes and times, but no text."""
    assert split in NAMES
    assert n_ctx >= 2
    with named(name):
        source = fingerprint(dataset)
    return {
        "name": name,
        "dataset": described(dataset),
        "source": source,
        "tokenizer": digest(tokenizer),
        "n_ctx": n_ctx,
        "split": split,
        "exclude": exclude and exclude.stem.rpartition("-")[2],  # its name holds its digest
    }


def _training(dataset: Dataset, bpe: Tokenizer, n_ctx: int, keep: Spool) -> Tokens:
    streams = components(dataset)
    parts = {name: keep(packing.pack(select(texts, "train"), bpe, n_ctx)) for name, texts in streams.items()}
    if len(parts) == 1:
        return next(iter(parts.values()))
    return keep(packing.cycled(list(parts.values()), _shares(dataset, parts)))


def _pool(dataset: Dataset, bpe: Tokenizer, n_ctx: int, keep: Spool, exclude: Path | None) -> Tokens:
    rng = np.random.default_rng(_SHUFFLE)
    parts = {}
    for name, texts in components(dataset).items():
        part = keep(packing.pack(select(texts, "pool"), bpe, n_ctx))
        places = np.arange(len(part))
        if exclude is not None:
            places = packing.unseen(part, np.load(exclude, mmap_mode="r", allow_pickle=False))
        parts[name] = part[rng.permutation(places)[: 2 * dataset.pool]]  # what is kept comes from among these
    return np.concatenate([*packing.capped(list(parts.values()), _shares(dataset, parts)), part[:0]])[: dataset.pool]


def _drawn(dataset: Dataset, tokenizer: Path, n_ctx: int, *, folder: Path, exclude: Path | None) -> Tokens:
    """The rows of a source that gives tokens instead of text."""
    if dataset.source == "repeats":
        bpe = load(tokenizer)
        return probes.repeats(bpe.d_vocab, n_ctx, count=dataset.pool, seed=_SHUFFLE, bos=bpe.bos)
    ((name, corpus),) = (dataset.of or {}).items()
    counted = build(
        name, corpus, tokenizer=tokenizer, n_ctx=n_ctx, split="pool", folder=folder, exclude=exclude
    ).array()  # fmt: skip
    if n_ctx - 1 < dataset.order or not len(counted):
        raise Mistake(f"order: {dataset.order} is more than the {n_ctx - 1} tokens of a row, or {name} gives no row.")
    return probes.ngrams(counted, dataset.order, count=dataset.pool, seed=_SHUFFLE)


def _shares(dataset: Dataset, names: Iterable[str]) -> list[float]:
    shares = weights(dataset)
    return [shares[name] for name in names]


@contextmanager
def named(name: str) -> Iterator[None]:
    """Put the name of the dataset before the key of a mistake in it."""
    try:
        yield
    except Mistake as mistake:
        raise Mistake(f"data.{name}.{mistake}") from mistake

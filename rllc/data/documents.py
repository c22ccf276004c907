"""The documents of a dataset, whatever their source, and the fingerprint that tells when they changed."""

import dataclasses
import hashlib
import itertools
import json
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from rllc.config import Dataset
from rllc.data import dyck, files, hub, split, stdlib
from rllc.mistake import Mistake, unknown

TOKENS = ("repeats", "ngrams")  # sources that give rows of tokens instead of text
_KEYS = {  # which fields beside text and pool a source has
    "stdlib": ("mix", "limit"),
    "files": ("path", "where", "limit"),
    "hub": ("path", "where", "limit", "subset", "split", "revision", "files"),
    "mixture": ("mix",),
    "repeats": (),
    "dyck": ("limit",),
    "ngrams": ("mix", "order"),
}
_DEFAULTS = Dataset("stdlib")

_Value = TypeVar("_Value")


def check(dataset: Dataset) -> None:
    """Raise Mistake if the fields of the dataset do not fit its source; opens no file."""
    if dataset.limit is not None and dataset.limit < 1:
        raise Mistake(f"limit: {dataset.limit} documents are none; give a number from 1, or null for all.")
    if dataset.pool < 1:
        raise Mistake(f"pool: {dataset.pool} rows are none; give a number from 1.")
    mine = _KEYS[dataset.source]
    for key in dict.fromkeys(name for names in _KEYS.values() for name in names):
        value = getattr(dataset, key)
        if key not in mine and value != getattr(_DEFAULTS, key):
            owners = " and ".join(repr(source) for source, keys in _KEYS.items() if key in keys)
            raise Mistake(f"{key}: {value!r} belongs to the source {owners}, not to {dataset.source!r}.")
    if "path" in mine and dataset.path is None:
        what = "the path of a file or folder" if dataset.source == "files" else "the id of a dataset, as owner/name"
        raise Mistake(f"path: a dataset with source {dataset.source!r} needs {what}.")
    if "mix" in mine:
        _check_mix(dataset, stdlib.COMPONENTS if dataset.source == "stdlib" else dataset.of or {})
    if dataset.source == "hub":
        hub.check(dataset)
    if dataset.order < 1:
        raise Mistake(f"order: {dataset.order} is below the least legal value, 1.")


def components(dataset: Dataset) -> dict[str, Iterator[str]]:
    """Open the streams of documents a dataset is made of; those of "stdlib" and "mixture" carry the names of `mix`.

    `limit` counts the documents of each stream.
    """
    check(dataset)
    assert dataset.source not in TOKENS
    if dataset.source == "files":
        assert dataset.path is not None
        return {"files": files.documents(dataset, files.paths(dataset.path))}
    if dataset.source == "hub":
        return {"hub": files.documents(dataset, hub.files(dataset))}
    if dataset.source == "dyck":
        return {"dyck": itertools.islice(dyck.documents(), dataset.limit or dyck.MANY)}
    if dataset.source == "mixture":
        return {name: stream for part, each in _parts(dataset) for name, stream in _prefixed(part, components(each))}
    assert dataset.mix is not None
    return {
        name: itertools.islice(stdlib.documents(name), dataset.limit)
        for name in stdlib.COMPONENTS
        if name in dataset.mix
    }


def weights(dataset: Dataset) -> dict[str, float]:
    """The share that rows of each component have, not normalised, by the names of `components`."""
    if dataset.source == "mixture":
        found: dict[str, float] = {}
        for part, each in _parts(dataset):
            inner = weights(each)
            share = (dataset.mix or {})[part] / sum(inner.values())
            found |= dict(_prefixed(part, {name: share * weight for name, weight in inner.items()}))
        return found
    return dict(dataset.mix) if dataset.source == "stdlib" and dataset.mix else {dataset.source: 1.0}


def documents(dataset: Dataset) -> Iterator[str]:
    """Yield all documents of a dataset, one component after the other."""
    return itertools.chain.from_iterable(components(dataset).values())


def train_documents(dataset: Dataset) -> Iterator[str]:
    """Yield the pieces of the training split, which is the text a tokenizer may see."""
    return split.select(documents(dataset), "train")


def fingerprint(dataset: Dataset) -> str:
    """Hash what the text depends on without reading it: 16 hexadecimal digits.

    For "stdlib" the Python version, for it, "files" and a folder laid out as a dataset of the hub the paths, sizes and
    modification times of all files. A dataset of the hub itself has none: its rows, once made, stay, so that each
    machine and each rerun reads the same.
    """
    check(dataset)
    if dataset.source == "files":
        assert dataset.path is not None
        version, paths = "", files.paths(dataset.path)
    elif dataset.source == "stdlib":
        version, paths = sys.version, stdlib.paths()
    elif dataset.source == "hub" and Path(dataset.path or "").is_dir():
        version, paths = "", sorted(path for path in Path(dataset.path or "").rglob("*") if path.is_file())
    else:
        version, paths = json.dumps([fingerprint(each) for _, each in _parts(dataset)]), []
    stats = [(str(path.resolve()), (stat := path.stat()).st_size, stat.st_mtime_ns) for path in paths]
    return hashlib.sha256(json.dumps([version, stats]).encode()).hexdigest()[:16]


def described(dataset: Dataset) -> dict[str, Any]:
    """The fields that the text and its rows depend on, for hashes.

    Newer fields are among them only where they are set, so that what was made before they existed is found.
    """
    since = ("subset", "split", "revision", "files", "order", "of")
    default = {field.name: field.default for field in dataclasses.fields(Dataset) if field.name in since}
    fields = {name: value for name, value in dataclasses.asdict(dataset).items() if name != "labels"}
    return {name: value for name, value in fields.items() if name not in since or value != default[name]}


def _parts(dataset: Dataset) -> list[tuple[str, Dataset]]:
    """The datasets of a mixture, in the order of their names."""
    return sorted((dataset.of or {}).items())


def _prefixed(part: str, inner: dict[str, _Value]) -> Iterable[tuple[str, _Value]]:
    return ((part if len(inner) == 1 else f"{part}.{name}", value) for name, value in inner.items())


def _check_mix(dataset: Dataset, legal: Iterable[str]) -> None:
    if not dataset.mix:
        raise Mistake(f"mix: a dataset with source {dataset.source!r} needs weights of: {', '.join(legal)}.")
    for name, weight in dataset.mix.items():
        if name not in legal:
            raise unknown("mix", name, legal)
        if not (math.isfinite(weight) and weight > 0):
            raise Mistake(f"mix.{name}: {weight!r} is not a weight; give a number above 0, or leave it out.")
    for name, each in _parts(dataset):
        if each.source in TOKENS:
            raise Mistake(f"mix.{name}: {each.source} are rows of tokens, not text, and cannot be mixed.")
    if dataset.source == "ngrams" and len(dataset.mix) != 1:
        raise Mistake(f"mix: {list(dataset.mix)} must be one dataset, whose tokens are counted.")

"""The documents of a dataset, whatever their source, and the fingerprint that tells when they changed."""

import hashlib
import itertools
import json
import math
import sys
from collections.abc import Iterator

from rllc.config import Dataset
from rllc.data import files, split, stdlib
from rllc.mistake import Mistake, unknown


def check(dataset: Dataset) -> None:
    """Raise Mistake if the fields of the dataset do not fit its source; opens no file."""
    if dataset.limit is not None and dataset.limit < 1:
        raise Mistake(f"limit: {dataset.limit} documents are none; give a number from 1, or null for all.")
    if dataset.pool < 1:
        raise Mistake(f"pool: {dataset.pool} rows are none; give a number from 1.")
    if dataset.source == "files":
        if dataset.path is None:
            raise Mistake("path: a dataset with source 'files' needs the path of a file or folder.")
        if dataset.mix is not None:
            raise Mistake(f"mix: {dataset.mix!r} belongs to the source 'stdlib', not to 'files'.")
        return
    for key, value in (("path", dataset.path), ("where", dataset.where)):
        if value is not None:
            raise Mistake(f"{key}: {value!r} belongs to the source 'files', not to 'stdlib'.")
    if not dataset.mix:
        raise Mistake(f"mix: a dataset with source 'stdlib' needs weights of: {', '.join(stdlib.COMPONENTS)}.")
    for name, weight in dataset.mix.items():
        if name not in stdlib.COMPONENTS:
            raise unknown("mix", name, stdlib.COMPONENTS)
        if not (math.isfinite(weight) and weight > 0):
            raise Mistake(f"mix.{name}: {weight!r} is not a weight; give a number above 0, or leave it out.")


def components(dataset: Dataset) -> dict[str, Iterator[str]]:
    """Open the streams of documents a dataset is made of; those of "stdlib" carry the names of `mix`.

    `limit` counts the documents of each stream.
    """
    check(dataset)
    if dataset.source == "files":
        return {"files": files.documents(dataset)}
    assert dataset.mix is not None
    return {
        name: itertools.islice(stdlib.documents(name), dataset.limit)
        for name in stdlib.COMPONENTS
        if name in dataset.mix
    }


def documents(dataset: Dataset) -> Iterator[str]:
    """Yield all documents of a dataset, one component after the other."""
    return itertools.chain.from_iterable(components(dataset).values())


def train_documents(dataset: Dataset) -> Iterator[str]:
    """Yield the pieces of the training split, which is the text a tokenizer may see."""
    return split.select(documents(dataset), "train")


def fingerprint(dataset: Dataset) -> str:
    """Hash what the text depends on without reading it: 16 hexadecimal digits.

    For "stdlib" the Python version, for both sources the paths, sizes and modification times of all files.
    """
    check(dataset)
    if dataset.source == "files":
        assert dataset.path is not None
        version, paths = "", files.paths(dataset.path)
    else:
        version, paths = sys.version, stdlib.paths()
    stats = [(str(path.resolve()), (stat := path.stat()).st_size, stat.st_mtime_ns) for path in paths]
    return hashlib.sha256(json.dumps([version, stats]).encode()).hexdigest()[:16]

"""Results by content key: one file an estimate, written whole, and a line for each in the writer's own index."""

import dataclasses
import io
import json
import math
import os
import zipfile
from collections.abc import Iterable, Iterator, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from rllc import atomic
from rllc.task import SCHEMA, Estimate, Task

ARRAYS = ("chains_C", "loss_CS")
LINE = frozenset(("key", "value", "error", "seconds", "health", "reason"))  # of the index
TAIL = 4096  # bytes of a traceback that are read for its last line


class Damaged(ValueError):
    """A file has the name of a result and is none: cut short, overwritten, or another's."""


def path(sweep: Path, key: str) -> Path:
    """The file of one result: sweeps/<sweep>/results/ab/ab12….npz."""
    return sweep / "results" / key[:2] / f"{key}.npz"


def put(sweep: Path, estimate: Estimate, worker: str) -> None:
    """Write one estimate, whole or not at all, then its index line; an old error of the same task is removed."""
    key = estimate.task.key
    fields = {field.name: getattr(estimate, field.name) for field in dataclasses.fields(estimate)}
    arrays = {name: fields.pop(name) for name in ARRAYS}
    meta = json.dumps(fields | {"task": dataclasses.asdict(estimate.task)})
    with atomic.replace(path(sweep, key)) as file:
        np.savez_compressed(file, meta=np.array(meta), **arrays)
    _error_path(sweep, key).unlink(missing_ok=True)
    append(sweep, worker, [summary(estimate)])


def append(sweep: Path, worker: str, lines: Iterable[dict[str, Any]]) -> None:
    """Add lines, as `summary` gives them, to the index of this worker."""
    index = sweep / "index" / f"{worker}.jsonl"
    index.parent.mkdir(exist_ok=True)
    with index.open("a+b") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        torn = file.read() not in (b"", b"\n")  # by a worker of this name that was killed
        file.write("".join([*"\n" * torn, *(json.dumps(line) + "\n" for line in lines)]).encode())


def summary(estimate: Estimate) -> dict[str, Any]:
    """The index line: key, value and error (null for NaN), health and reason, seconds."""
    numbers = {name: getattr(estimate, name) for name in ("value", "error", "seconds")}
    numbers = {name: number if math.isfinite(number) else None for name, number in numbers.items()}
    return {"key": estimate.task.key, **numbers, "health": estimate.health, "reason": estimate.reason}


def get(sweep: Path, key: str) -> Estimate:
    """Read one estimate.

    Raises:
        Damaged: the file is not, or no longer, the result of this key.
        ValueError: the file is of another schema or version.
        FileNotFoundError: there is none.
    """
    file = path(sweep, key)
    fields, arrays = _decoded(file)
    if fields["schema"] != SCHEMA:
        raise ValueError(f"{file}: schema {fields['schema']} of another version of rllc, expected {SCHEMA}")
    try:
        estimate = Estimate(**{**fields, "task": Task.of(fields["task"])}, **arrays)
    except TypeError as error:
        raise ValueError(f"{file}: written by another version of rllc ({error})") from None
    if estimate.task.key != key:
        raise Damaged(f"{file}: schema {SCHEMA} and key {estimate.task.key}, expected {SCHEMA} and {key}")
    return estimate


def _decoded(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields and arrays of a file; its members are read whole, so that their checksums are looked at."""
    content = io.BytesIO(file.read_bytes())  # a disk that fails to read says nothing of the file
    try:
        with zipfile.ZipFile(content) as archive:
            meta, *arrays = (
                np.lib.format.read_array(io.BytesIO(archive.read(f"{name}.npy")), allow_pickle=False)
                for name in ("meta", *ARRAYS)
            )
        fields = json.loads(str(meta))
        return fields | {"schema": fields["schema"]}, dict(zip(ARRAYS, arrays, strict=True))
    except MemoryError:
        raise
    except Exception as error:  # each reader of broken bytes has errors of its own
        raise Damaged(f"{file}: damaged ({type(error).__name__}: {error})") from None


def keys(sweep: Path) -> set[str]:
    """Keys of all results that are there, from the names of the files."""
    names = (name for folder in _folders(sweep / "results") for name in _names(folder))
    return {name.removesuffix(".npz") for name in names if name.endswith(".npz")}


def present(sweep: Path, wanted: Iterable[str]) -> set[str]:
    """Which of a few keys have a result, each looked up by itself."""
    return {key for key in wanted if path(sweep, key).exists()}


def set_aside(sweep: Path, key: str) -> Path:
    """Move a damaged result to damaged/, so that its task is missing and is measured again; its new place."""
    there = sweep / "damaged" / key[:2] / f"{key}.npz"
    there.parent.mkdir(parents=True, exist_ok=True)
    path(sweep, key).replace(there)
    return there


def tidy(sweep: Path) -> None:
    """Remove temporary files that writers on this host left when they were killed."""
    for folder in [sweep, *(folder for name in ("results", "errors", "tokens") for folder in _folders(sweep / name))]:
        for file in atomic.leftovers(folder):
            file.unlink(missing_ok=True)


def index(sweep: Path) -> dict[str, dict[str, Any]]:
    """The index lines by key; a result without a line (its writer was killed in between) is read from its file.

    A file without a line that cannot be read counts for nothing.
    """
    lines: dict[str, dict[str, Any]] = {}
    for file in sorted((sweep / "index").glob("*.jsonl")):
        with file.open("rb") as content:
            lines |= {entry["key"]: entry for entry in entries(content)}
    found = {}
    for key in keys(sweep):
        with suppress(ValueError, FileNotFoundError):
            found[key] = lines.get(key) or summary(get(sweep, key))
    return found


def entries(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The entries of index lines."""
    return (entry for entry in parse(lines) if entry.keys() >= LINE)


def parse(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON objects of lines, without those that a killed writer left torn."""
    for line in lines:
        with suppress(ValueError):
            entry = json.loads(line.decode())
            if isinstance(entry, dict):
                yield entry


def put_error(sweep: Path, key: str, text: str) -> None:
    """Keep the traceback of a task that could not be measured."""
    atomic.write_text(_error_path(sweep, key), text)


def errors(sweep: Path) -> dict[str, str]:
    """The last line of each kept traceback, by key."""
    return {file.stem: _last_line(file) for file in _error_files(sweep)}


def clear_errors(sweep: Path, kept: Set[str] = frozenset()) -> None:
    """Forget old failures, but those of the keys in `kept`: a new submission tries them again."""
    for file in _error_files(sweep):
        if file.stem not in kept:
            file.unlink(missing_ok=True)


def _error_path(sweep: Path, key: str) -> Path:
    return sweep / "errors" / key[:2] / f"{key}.txt"


def _error_files(sweep: Path) -> Iterator[Path]:
    for folder in _folders(sweep / "errors"):
        yield from (folder / name for name in sorted(_names(folder)) if name.endswith(".txt"))


def _folders(parent: Path) -> list[Path]:
    """The folders ab/ of a key's first two digits: 256, so that none holds more than some hundred files of a sweep."""
    return sorted(parent.glob("[0-9a-f][0-9a-f]"))


def _names(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _last_line(file: Path) -> str:
    with file.open("rb") as content:
        size = content.seek(0, os.SEEK_END)
        content.seek(max(0, size - TAIL))
        lines = content.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")

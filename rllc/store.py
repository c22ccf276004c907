"""Results by content key: one file an estimate, written whole, and a line for each in the writer's own index."""

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from rllc import atomic
from rllc.task import SCHEMA, Estimate, Task


def path(sweep: Path, key: str) -> Path:
    """The file of one result: sweeps/<sweep>/results/ab/ab12….npz."""
    return sweep / "results" / key[:2] / f"{key}.npz"


def put(sweep: Path, estimate: Estimate, worker: str) -> None:
    """Write one estimate, whole or not at all, then its index line; an old error of the same task is removed."""
    key = estimate.task.key
    fields = {field.name: getattr(estimate, field.name) for field in dataclasses.fields(estimate)}
    arrays = {name: fields.pop(name) for name in ("chains_C", "loss_CS")}
    meta = json.dumps(fields | {"task": dataclasses.asdict(estimate.task)})
    with atomic.replace(path(sweep, key)) as file:
        np.savez_compressed(file, meta=np.array(meta), **arrays)
    _error_path(sweep, key).unlink(missing_ok=True)
    append(sweep, worker, estimate)


def append(sweep: Path, worker: str, estimate: Estimate) -> None:
    """Add the line of one estimate to the index of this worker."""
    index = sweep / "index" / f"{worker}.jsonl"
    index.parent.mkdir(exist_ok=True)
    with index.open("a", encoding="utf-8") as file:
        file.write(json.dumps(summary(estimate)) + "\n")


def summary(estimate: Estimate) -> dict[str, Any]:
    """The index line: key, value and error (null for NaN), health and reason, seconds."""
    numbers = {name: getattr(estimate, name) for name in ("value", "error", "seconds")}
    numbers = {name: number if math.isfinite(number) else None for name, number in numbers.items()}
    return {"key": estimate.task.key, **numbers, "health": estimate.health, "reason": estimate.reason}


def get(sweep: Path, key: str) -> Estimate:
    """Read one estimate.

    Raises:
        ValueError: the file is of another schema, or is not the result of this key.
    """
    with np.load(path(sweep, key), allow_pickle=False) as file:
        fields = json.loads(str(file["meta"]))
        arrays = {name: file[name] for name in ("chains_C", "loss_CS")}
    task = Task.of(fields.pop("task"))
    if fields["schema"] != SCHEMA or task.key != key:
        raise ValueError(
            f"{path(sweep, key)}: schema {fields['schema']} and key {task.key}, expected {SCHEMA} and {key}"
        )
    return Estimate(task=task, **fields, **arrays)


def keys(sweep: Path) -> set[str]:
    """Keys of all results that are there, from the names of the files."""
    found: set[str] = set()
    for folder in (sweep / "results").glob("[0-9a-f][0-9a-f]"):
        found.update(file.stem for file in folder.iterdir() if file.suffix == ".npz")
    return found


def index(sweep: Path) -> dict[str, dict[str, Any]]:
    """The index lines by key; a result without a line (its writer was killed in between) is read from its file."""
    lines: dict[str, dict[str, Any]] = {}
    for file in sorted((sweep / "index").glob("*.jsonl")):
        lines |= {entry["key"]: entry for entry in parse(file.read_bytes().split(b"\n"))}
    present = keys(sweep)
    return {key: lines[key] if key in lines else summary(get(sweep, key)) for key in present}


def parse(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The entries of index lines, without those that a killed writer left torn."""
    for line in lines:
        with suppress(ValueError):
            yield json.loads(line)


def put_error(sweep: Path, key: str, text: str) -> None:
    """Keep the traceback of a task that could not be measured."""
    atomic.write_text(_error_path(sweep, key), text)


def errors(sweep: Path) -> dict[str, str]:
    """The last line of each kept traceback, by key."""
    return {file.stem: _last_line(file) for file in sorted((sweep / "errors").glob("*/*.txt"))}


def clear_errors(sweep: Path) -> None:
    """Forget old failures: a new submission tries them again."""
    for file in (sweep / "errors").glob("*/*.txt"):
        file.unlink(missing_ok=True)


def _error_path(sweep: Path, key: str) -> Path:
    return sweep / "errors" / key[:2] / f"{key}.txt"


def _last_line(file: Path) -> str:
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""

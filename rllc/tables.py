"""Long tables of curves, CSV or Parquet, read row by row and checked."""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rllc.mistake import Mistake, unknown, words
from rllc.task import SCHEMA

NEEDED = ("part", "dataset", "step", "value")
MOST = 1e100  # what is larger is no measurement, and its square no number
OPTIONAL = {"run": None, "metric": "value", "seed": "0", "error": math.nan, "chains": ()}

Record = tuple[str, dict[str, Any]]  # the place of a row in its file, as "line 3", and its fields


@dataclass(frozen=True, slots=True)
class Row:
    """One number of a curve; `value` is NaN where the file has none, `place` says where the row stands.

    `chains` are the means of the chains behind it, where a Parquet file has them.
    """

    run: str
    metric: str
    part: str
    dataset: str
    step: int
    seed: str
    value: float
    error: float
    place: str
    chains: tuple[float, ...] = ()


def read(path: Path) -> list[Row]:
    """Read all rows of a table.

    Needed columns are part, dataset, step and value; run (default: the file's name), metric, seed and error may be
    there, others are ignored. Parts and datasets stay text, so "0.10" keeps its zero. An empty or non-finite value is
    a hole, read as NaN. An error is 0 or more, or unknown: an empty field, and in Parquet NaN.

    Raises:
        Mistake: the file, a column or a field is missing or not what it has to be, or a later version wrote it.
    """
    if path.suffix not in (".csv", ".parquet"):
        raise unknown(f"{path}: suffix", path.suffix, (".csv", ".parquet"))
    if not path.is_file():
        raise Mistake(f"{path}: there is no such file.")
    records = _csv(path) if path.suffix == ".csv" else _parquet(path)
    rows = [_row(path, place, fields) for place, fields in records]
    if not rows:
        raise Mistake(f"{path}: the table has no rows.")
    return rows


def _columns(path: Path, names: list[str]) -> list[str]:
    """Check the header and give the columns that are read."""
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise Mistake(
            f"{path}: column {', '.join(missing)} is missing; needed are {', '.join(NEEDED)}, there are "
            f"{', '.join(names) or 'none'}."
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Mistake(f"{path}: column {', '.join(twice)} appears more than once.")
    return [name for name in names if name in NEEDED or name in OPTIONAL]


def _csv(path: Path) -> Iterator[Record]:
    """Give the rows of a CSV file with a header line, all fields as text."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            wanted = _columns(path, header)
            for fields in reader:
                if not fields:
                    continue
                if len(fields) != len(header):
                    raise Mistake(
                        f"{path}: line {reader.line_num} has {len(fields)} fields, but the header has {len(header)}."
                    )
                named = dict(zip(header, fields, strict=True))
                yield f"line {reader.line_num}", {name: named[name].strip() for name in wanted}
    except (UnicodeDecodeError, csv.Error) as error:
        raise Mistake(f"{path}: not a CSV file in UTF-8 ({error}).") from error


def _parquet(path: Path) -> Iterator[Record]:
    """Give the rows of a Parquet file."""
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            _readable(path, (file.schema_arrow.metadata or {}).get(b"rllc.schema"))
            wanted = _columns(path, file.schema_arrow.names)
            columns = [column.to_pylist() for column in file.read(columns=wanted).select(wanted).columns]
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise Mistake(f"{path}: not a Parquet file ({words(error)}).") from error
    for index, fields in enumerate(zip(*columns, strict=True)):
        yield f"row {index + 1}", dict(zip(wanted, fields, strict=True))


def _readable(path: Path, schema: bytes | None) -> None:
    if schema is not None and int(schema) > SCHEMA:
        raise Mistake(f"{path}: its schema is {int(schema)}, but this version reads up to {SCHEMA}; use a newer rllc.")


def _row(path: Path, place: str, fields: dict[str, Any]) -> Row:
    """Turn the fields of one row into text and numbers."""
    fields = {**OPTIONAL, "run": path.stem, **fields}
    for name in ("run", "metric", "part", "dataset"):
        if not isinstance(fields[name], str) or not fields[name]:
            raise Mistake(f"{path}: {place}: {name} is {fields[name]!r}, but has to be a name.")
    step = _number(path, place, "step", fields["step"])
    if not (step >= 0 and step == int(step)):
        raise Mistake(f"{path}: {place}: step is {fields['step']!r}, but has to be a whole number from 0 on.")
    value = _number(path, place, "value", fields["value"])
    error = _error(path, place, fields["error"], value)
    return Row(
        run=fields["run"],
        metric=fields["metric"],
        part=fields["part"],
        dataset=fields["dataset"],
        step=int(step),
        seed=str(fields["seed"]),
        value=value,
        error=error,
        place=place,
        chains=_means(fields["chains"]),
    )


def _means(field: Any) -> tuple[float, ...]:
    """Read the means of chains; a column of that name that holds something else is not meant."""
    return tuple(field) if isinstance(field, list) and all(isinstance(mean, float) for mean in field) else ()


def _number(path: Path, place: str, name: str, field: Any) -> float:
    """Read a number; nothing, and what is not finite, is NaN."""
    if field is None or field == "":
        return math.nan
    try:
        number = float(field)
    except (TypeError, ValueError) as error:
        raise Mistake(f"{path}: {place}: {name} is {field!r}, which is not a number.") from error
    if not math.isfinite(number):
        return math.nan
    if abs(number) > MOST:
        raise Mistake(f"{path}: {place}: {name} is {field!r}, which is no number up to {MOST:g}.")
    return number


def _error(path: Path, place: str, field: Any, value: float) -> float:
    """Read the standard error of a value; NaN where it is unknown, and beside a hole, which has none."""
    error = _number(path, place, "error", field)
    unknown = field is None or field == "" or (isinstance(field, float) and math.isnan(field))
    if math.isnan(value) or unknown or error >= 0:
        return error
    raise Mistake(f"{path}: {place}: error is {field!r}, but has to be a number from 0 on; leave it empty if unknown.")

"""Files of records (JSON lines, Parquet) as a stream of dictionaries with their places."""

import json
from collections.abc import Iterator
from typing import Any

from rllc.data.blocks import binary, damaged, lines
from rllc.data.shards import Shard
from rllc.mistake import Mistake

Record = tuple[str, dict[str, Any]]  # (where it stands, for messages; its fields)

_BATCH = 256  # Parquet rows decoded at once


def jsonl(path: Shard) -> Iterator[Record]:
    """Yield the object of each line that is not blank; raise Mistake at the first line that holds none."""
    offset = 0
    for number, line in enumerate(lines(path), 1):
        place = f"{path}, line {number}"
        if (nul := line.find(b"\0")) >= 0:
            raise binary(path, offset + nul)
        try:
            record = json.loads(line.decode("utf-8-sig")) if line.strip() else None
        except UnicodeDecodeError as error:
            raise binary(path, offset + error.start) from error
        except (ValueError, RecursionError) as error:
            raise Mistake(f"path: {place} is not valid JSON ({error}).") from error
        offset += len(line) + 1
        if isinstance(record, dict):
            yield place, record
        elif line.strip():
            raise Mistake(f"path: {place} holds a {type(record).__name__}, not an object with fields.")


def parquet(path: Shard, fields: dict[str, str]) -> Iterator[Record]:
    """Yield the rows with only the columns of some fields, given by the key of the configuration that asks for them.

    A dotted field is a column of that name, or lies in the struct before the first dot. Raises Mistake for a file that
    is not Parquet or has no such column.
    """
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        with path.open("rb") as raw, ParquetFile(raw) as file:
            names: list[str] = file.schema_arrow.names
            wanted = {key: field if field in names else field.split(".")[0] for key, field in fields.items()}
            for key, column in wanted.items():
                if column not in names:
                    raise Mistake(f"{key}: {path} has no column {column!r}; its columns are: {', '.join(names)}.")
            number = 0
            for batch in file.iter_batches(batch_size=_BATCH, columns=sorted(set(wanted.values()))):
                for record in batch.to_pylist():
                    number += 1
                    yield f"{path}, row {number}", record
    except (pyarrow.ArrowException, OSError) as error:
        raise damaged(path) from error

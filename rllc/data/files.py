"""The user's own text: files of records, plain text and source code, alone or in a folder."""

import functools
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rllc.config import Dataset
from rllc.data import plain, records
from rllc.data.shards import Shard, patiently
from rllc.data.where import Where, parse
from rllc.mistake import Mistake

RECORDS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
JSON = (".json", ".json.gz", ".json.zst")  # of datasets of the hub, where they hold lines
PLAIN = (".txt", ".md")
# fmt: off
SOURCE = (
    ".bash", ".c", ".cc", ".clj", ".cpp", ".cs", ".css", ".cu", ".cxx", ".dart", ".erl", ".ex", ".f90", ".go", ".h",
    ".hh", ".hpp", ".hs", ".html", ".java", ".jl", ".js", ".jsx", ".kt", ".lua", ".m", ".ml", ".php", ".pl", ".ps1",
    ".py", ".pyi", ".r", ".rb", ".rs", ".scala", ".sh", ".sql", ".swift", ".tcl", ".tex", ".ts", ".tsx", ".vue",
    ".zig",
)
# fmt: on


def paths(path: str) -> list[Path]:
    """List the files of a dataset, sorted; a folder is searched to its end, except for hidden names.

    Raises Mistake if the path is missing, of no known kind, empty, or a folder without any file of a known kind.
    """
    root = Path(path)
    if root.is_dir():
        found = sorted(_walk(root))
        if not found:
            raise Mistake(f"path: the folder {path} has no file of the kinds {_kinds()}.")
        return found
    if not root.exists():
        raise Mistake(f"path: {path!r} does not exist.")
    if not root.name.lower().endswith(RECORDS + PLAIN + SOURCE):
        raise Mistake(f"path: {path!r} is neither a folder nor of the kinds {_kinds()}.")
    if root.stat().st_size == 0:
        raise Mistake(f"path: {path!r} is empty.")
    return [root]


def documents(dataset: Dataset, shards: Sequence[Shard]) -> Iterator[str]:
    """Yield the non-empty documents in the order of the files, filtered by `where`, the first `limit` of them.

    Raises Mistake, naming the field of the dataset, for whatever cannot be read and when nothing is left.
    """
    assert dataset.path is not None
    where = parse(dataset.where) if dataset.where is not None else None
    seen: dict[str, None] = {}  # the first values of the filtered field, for the message
    texts = itertools.chain.from_iterable(
        patiently(shard, functools.partial(_read, shard, dataset, where, seen)) for shard in shards
    )
    kept = 0
    for text in itertools.islice((text for text in texts if text.strip()), dataset.limit):
        kept += 1
        yield text
    if not kept and where is not None:
        raise Mistake(
            f"where: {dataset.where!r} keeps no document of {dataset.path!r};"
            f" values of {where.field} there: {', '.join(seen) or 'none'}."
        )
    if not kept:
        raise Mistake(f"path: {dataset.path!r} holds no text.")


def _walk(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.lower().endswith(RECORDS + PLAIN + SOURCE) and not name.startswith("."):
                yield Path(folder, name)


def _kinds() -> str:
    return f"{', '.join(RECORDS + PLAIN)} or source code ({', '.join(SOURCE)})"


def _read(path: Shard, dataset: Dataset, where: Where | None, seen: dict[str, None]) -> Iterator[str]:
    """Yield the documents of one file."""
    if not path.name.lower().endswith(RECORDS + JSON):
        if where is not None:
            raise Mistake(f"where: {dataset.where!r} needs records ({', '.join(RECORDS)}), but {path} is plain text.")
        yield from plain.documents(path)
        return
    fields = {"text": dataset.text} | ({} if where is None else {"where": where.field})
    is_parquet = path.suffix.lower() == ".parquet"
    for place, record in records.parquet(path, fields) if is_parquet else records.jsonl(path):
        if where is not None:
            values = where.values(record)
            if len(seen) < 10:
                seen.update((repr(value), None) for value in values)
            if where.value not in values:
                continue
        yield _text(place, record, dataset.text)


def _text(place: str, record: dict[str, Any], field: str) -> str:
    """Return the text of a record; null is an empty document."""
    if field not in record:
        raise Mistake(f"text: {place} has no field {field!r}; its fields are: {', '.join(record)}.")
    text = record[field]
    if isinstance(text, list):
        raise Mistake(
            f"text: {place} has tokens in the field {field!r}, made with a tokenizer that is not the run's; give text."
        )
    if not isinstance(text, str | None):
        raise Mistake(f"text: {place} has a {type(text).__name__} in the field {field!r}, not text.")
    return (text or "").encode("utf-8", "replace").decode()  # JSON can hold lone surrogates, which no tokenizer takes

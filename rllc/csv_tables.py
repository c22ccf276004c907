"""Small CSV tables with a header: written whole, numbers with six digits, and read back as text."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from rllc import atomic

Line = Sequence[str | int | float | bool]


def write(path: Path, columns: Sequence[str], lines: Iterable[Line]) -> None:
    """Write a table; six digits of a number, so that rounding in the last bits does not show."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_field(field) for field in line] for line in lines)
    atomic.write_text(path, text.getvalue())


def read(path: Path) -> list[dict[str, str]]:
    """Give the lines of a table; none where there is no such file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _field(field: str | int | float | bool) -> str | int:
    if isinstance(field, bool):
        return str(field).lower()
    return f"{field:.6g}" if isinstance(field, float) else field

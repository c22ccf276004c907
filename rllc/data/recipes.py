"""What rows were made from, so that the same request finds them again without reading any text."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rllc import atomic

FORMAT = 1  # part of every recipe: raise it when the same text gives other rows


@dataclass(frozen=True)
class Entry:
    """Rows that a recipe gave.

    Attributes:
        digest: of the rows.
        path: name of their file in the folder.
        rows: how many.
        size: bytes of the file; another size means it is not the file that was written.
    """

    digest: str
    path: str
    rows: int
    size: int


def place(folder: Path, ingredients: dict[str, Any]) -> Path:
    """Name the file of a recipe: a hash of all that the rows depend on and of `FORMAT`."""
    text = json.dumps({"format": FORMAT, **ingredients}, sort_keys=True)
    return folder / "recipes" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def find(recipe: Path) -> Entry | None:
    """Read a recipe; None if it was never made, or its rows are missing or of the wrong size."""
    try:
        entry = Entry(**json.loads(recipe.read_text(encoding="utf-8")))
        size = (recipe.parent.parent / entry.path).stat().st_size
    except FileNotFoundError:
        return None
    return entry if size == entry.size else None


def put(recipe: Path, entry: Entry) -> None:
    """Write a recipe whole."""
    with atomic.replace(recipe) as file:
        file.write(json.dumps(dataclasses.asdict(entry)).encode())

"""The lines that workers append to the index files of a sweep, as they come."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rllc import store


@dataclass
class Tail:
    """A folder of index files, and how many bytes of each were read."""

    folder: Path
    read: dict[Path, int] = field(default_factory=dict)

    def skip(self) -> None:
        """Leave out what is there already."""
        self.read = {file: file.stat().st_size for file in self.folder.glob("*.jsonl")}

    def new(self) -> Iterator[dict[str, Any]]:
        """Yield the entries of the whole lines that were added; a file that became shorter is read from its start."""
        for file in sorted(self.folder.glob("*.jsonl")):
            with file.open("rb") as lines:
                before = self.read.get(file, 0)
                lines.seek(before if before <= file.stat().st_size else 0)
                begin = lines.tell()
                whole, _, _ = lines.read().rpartition(b"\n")
            if whole:
                self.read[file] = begin + len(whole) + 1
                yield from store.entries(whole.split(b"\n"))

"""The losses of a training, as its metrics.jsonl grows: in step order, each once, and not too many."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SPACING = 500  # a step is shown where it is 1/SPACING beyond the one before: about 3,000 of a million steps


@dataclass
class Losses:
    """One training; `last` is the step shown last, `seen` the state of its metrics file when it was read last."""

    last: int = -1
    seen: tuple[int, int] = (0, 0)

    def read(self, file: Path, *, final: bool = False) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield step and series of what is new in a metrics file, as `take` does."""
        seen = _state(file)
        if seen != self.seen or final:
            self.seen = seen
            yield from self.take(_lines(file), final=final)

    def take(self, lines: Iterable[Mapping[str, Any]], *, final: bool) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield step and series of what is new; with `final` the last step too, however close it is.

        The steps that are shown depend on the lines alone, not on when they come. A training that is resumed takes
        lines away and writes the same ones again; they are shown once.
        """
        new = [line for line in lines if line["step"] > self.last]
        for line in new:
            if line["step"] >= self.last + max(1, self.last // SPACING) or (final and line is new[-1]):
                self.last = line["step"]
                yield line["step"], {"train/loss": float(line["loss"])}


def _state(file: Path) -> tuple[int, int]:
    try:
        stat = file.stat()
    except OSError:
        return 0, 0
    return stat.st_size, stat.st_mtime_ns


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        return
    for line in text.splitlines():
        with suppress(ValueError):  # the last line may be torn
            entry = json.loads(line)
            if isinstance(entry, dict) and {"step", "loss"} <= entry.keys():
                yield entry

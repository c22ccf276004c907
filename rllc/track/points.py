"""From result rows to the points of a curve: one point a step, in step order, once all its cells are there."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rllc.task import HEALTH

Row = Mapping[str, Any]  # one line of the result table
Curve = tuple[str, str]  # training run, dataset; the dataset is TRAINING for the losses of the training itself

TRAINING = ""


@dataclass(frozen=True)
class Plan:
    """What the curves that follow are planned to hold, as a hash: a sweep that has grown is shown anew."""

    digest: str


@dataclass(frozen=True)
class Point:
    """All series of one curve at one training step; `whole` says that no planned cell of it is missing."""

    run: str
    dataset: str
    step: int
    values: dict[str, float]
    whole: bool = True


@dataclass(frozen=True)
class Overview:
    """What belongs to the whole sweep: tables, and paths of pictures and of files, relative to the sweep."""

    tables: dict[str, list[dict[str, Any]]]
    figures: list[str]
    files: list[str]


Item = Plan | Point | Overview


@dataclass(frozen=True)
class Released:
    """The rows of one step, and whether these are all that were planned."""

    step: int
    rows: list[Row]
    whole: bool


@dataclass
class Line:
    """One curve under way.

    Attributes:
        awaited: keys that each planned step still waits for.
        rows: arrived rows of each step, by key.
        holed: steps of which a cell failed.
        last: the step released last; -1 before the first.
    """

    awaited: dict[int, set[str]] = field(default_factory=dict)
    rows: dict[int, dict[str, Row]] = field(default_factory=dict)
    holed: set[int] = field(default_factory=set)
    last: int = -1

    def expect(self, step: int, key: str) -> None:
        """Let a step wait for this cell."""
        if step > self.last and key not in self.rows.get(step, {}):
            self.awaited.setdefault(step, set()).add(key)

    def put(self, step: int, key: str, row: Row) -> None:
        """Take a row; a second one of the same key, or one of a step already released, is dropped."""
        if step > self.last:
            self.rows.setdefault(step, {}).setdefault(key, row)
            self.awaited.get(step, set()).discard(key)

    def drop(self, step: int, key: str) -> None:
        """Wait no longer for this cell."""
        if step in self.awaited and key in self.awaited[step]:
            self.awaited[step].discard(key)
            self.holed.add(step)

    def ready(self) -> Iterator[Released]:
        """Release the complete steps up to the first that still waits."""
        for step in sorted(self.awaited):
            if self.awaited[step]:
                return
            yield from self._release(step)

    def rest(self) -> Iterator[Released]:
        """Release everything that came, complete or not."""
        for step in sorted(self.rows):
            yield from self._release(step)

    def _release(self, step: int) -> Iterator[Released]:
        whole = not self.awaited.pop(step, None) and step not in self.holed
        rows = self.rows.pop(step, {})
        if rows and step > self.last:
            self.last = step
            yield Released(step, list(rows.values()), whole)


def series(rows: Iterable[Row]) -> dict[str, float]:
    """Name and value of every series at one step.

    For the metric "llc" `rllc/L0H3`, its standard error `error/L0H3` and `health/L0H3` (position in task.HEALTH, 0 is
    ok); for another metric `prev_token/L0H3`, and `error/prev_token/L0H3` where it has one. Several seeds of a cell
    are averaged, their errors combined as √Σe²/n, and the worst health is shown.
    """
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        cells.setdefault((row["metric"], row["part"]), []).append(row)
    named: dict[str, float] = {}
    for (metric, part), seeds in sorted(cells.items()):
        value = sum(_number(row["value"]) for row in seeds) / len(seeds)
        error = math.sqrt(sum(_number(row["error"]) ** 2 for row in seeds)) / len(seeds)
        if metric == "llc":
            named[f"rllc/{part}"], named[f"error/{part}"] = value, error
            named[f"health/{part}"] = max(HEALTH.index(row["health"]) for row in seeds)
        else:
            named[f"{metric}/{part}"] = value
            if math.isfinite(error):
                named[f"error/{metric}/{part}"] = error
    return named


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)

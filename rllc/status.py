"""How far a sweep is, from its files alone."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rllc import plan, progress, store
from rllc.plan import Cell

SHOWN = 10  # cells of a kind that are named

ALONE = "of work left for a single worker"


@dataclass(frozen=True)
class Status:
    """Counts of a sweep's tasks.

    `diverged` are among the done; `failed` left a traceback and are without a result, as are those not yet tried.
    `seconds_left` is worker time at the rate of what is done; None when nothing is.
    """

    planned: int
    done: int
    diverged: list[str]
    suspect: int
    short: int
    failed: dict[str, str]
    seconds_left: float | None

    @property
    def missing(self) -> int:
        """Tasks without a result."""
        return self.planned - self.done

    @property
    def whole(self) -> bool:
        """Whether every task has a finite result."""
        return not self.missing and not self.diverged


@contextmanager
def collector_off() -> Iterator[None]:
    """Read a plan and its index without the garbage collector, whose visits to objects that all stay took a fifth."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def status(sweep: Path) -> Status:
    """Read the plan, the indexes and the errors of a sweep.

    Raises:
        Mistake: there is no such sweep.
    """
    cells = plan.required(sweep)
    index, errors = store.index(sweep), store.errors(sweep)
    by_key = {cell.task.key: cell for cell in cells}
    done = {key: line for key, line in index.items() if key in by_key}
    return Status(
        planned=len(cells),
        done=len(done),
        diverged=[name(cell) for key, cell in by_key.items() if key in done and done[key]["health"] == "diverged"],
        suspect=sum(line["health"] == "suspect" for line in done.values()),
        short=sum(line["health"] == "short" for line in done.values()),
        failed={name(cell): errors[key] for key, cell in by_key.items() if key in errors and key not in done},
        seconds_left=_left(cells, {key: line["seconds"] for key, line in done.items()}),
    )


def name(cell: Cell) -> str:
    """A cell as a person says it."""
    task = cell.task
    return f"{task.metric} of {task.part} on {task.dataset} at step {task.step} of {task.run}, seed {task.seed}"


def describe(found: Status, sweep: Path, *, workers: int) -> str:
    """A few lines for a terminal; `workers` are those that are known to be at work, 0 where none is."""
    untried = found.missing - len(found.failed)
    text = [
        f"{sweep}: {found.done} of {found.planned} tasks done, {untried} missing, {len(found.failed)} failed, "
        f"{len(found.diverged)} diverged, {found.suspect} suspect, {found.short} short"
    ]
    if found.missing and found.seconds_left is not None:
        time = progress.clock(found.seconds_left / max(workers, 1))
        text.append(f"about {time} " + (f"left with {workers} worker{'s' * (workers != 1)}" if workers else ALONE))
    text += _first([f"failed: {cell}: {error}" for cell, error in found.failed.items()], "failed")
    text += _first([f"diverged: {cell}" for cell in found.diverged], "diverged")
    return "\n".join(text)


def _first(lines: list[str], what: str) -> list[str]:
    """The first SHOWN lines, and how many more there are."""
    return [*lines[:SHOWN], *([f"and {len(lines) - SHOWN} more {what}"] if len(lines) > SHOWN else [])]


def _left(cells: Sequence[Cell], seconds: dict[str, float]) -> float | None:
    spent = sum(seconds.values())
    cost = sum(cell.cost for cell in cells if cell.task.key in seconds)
    rest = sum(cell.cost for cell in cells if cell.task.key not in seconds)
    return rest * spent / cost if cost else None

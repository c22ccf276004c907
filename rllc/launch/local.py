"""Workers on this machine: a sweep's cells cut into shards, and the lines of their indexes as they come."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rllc import atomic, plan, progress, shards, store
from rllc.config import Local
from rllc.launch import crew
from rllc.launch.size import workers
from rllc.plan import Cell
from rllc.tail import Tail

FOLDER = "local"  # beside the plan: what the workers of this launch do


def sweep(folder: Path, cells: Sequence[Cell], launch: Local, *, on_line: Callable[[dict[str, Any]], None]) -> int:
    """Run the workers of a sweep until all have ended; `on_line` is told each new line of their indexes.

    Returns the highest of their exit codes: 1 for a worker that was killed and gave up, too.
    """
    present = store.keys(folder) & {cell.task.key for cell in cells}
    done, total = len(present), len(cells)
    files = _cut(folder, cells, workers(launch), present)
    tail = Tail(folder / "index")
    tail.skip()
    with progress.bar(f"sweep, {len(files)} worker{'s' * (len(files) > 1)}") as show:

        def watch() -> None:
            nonlocal done
            for line in tail.new():
                done += 1
                on_line(line)
            show(done, total)

        try:
            return crew.run(
                folder, files, threads=launch.threads, attempts=launch.attempts, watch=watch,
                devices=launch.devices or (),
            )  # fmt: skip
        finally:
            shutil.rmtree(folder / FOLDER, ignore_errors=True)


def working(folder: Path) -> int:
    """How many workers a launch on this machine has started, where one is at work."""
    return len([*(folder / FOLDER / "shards").glob("*.jsonl")]) if atomic.owned(folder) else 0


def _cut(folder: Path, cells: Sequence[Cell], count: int, present: set[str]) -> list[Path]:
    """Write a shard for each worker; that of a launch that was killed is replaced."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
    files = []
    for place, shard in enumerate(shards.cut(cells, count, present)):
        files.append(folder / FOLDER / "shards" / f"{place:04}.jsonl")
        plan.write_lines(files[-1], shard)
    return files

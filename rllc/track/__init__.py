"""Shows a sweep in Weights & Biases while it runs or afterwards; the record stays in the sweep's own files."""

import dataclasses
import importlib.util
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rllc.config import Track
from rllc.mistake import Mistake
from rllc.task import Task
from rllc.track.feed import Feed, Nothing, Sink, warn
from rllc.track.points import Curve, Line, Overview, Point, Row, series

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = (
    "key",
    "run",
    "step",
    "part",
    "layer",
    "head",
    "dataset",
    "metric",
    "seed",
    "value",
    "error",
    "health",
    "reason",
)
TABLE_ROWS = 10_000  # what a W&B table shows well; the artifact has everything
ORDERLY, HASTY = 600.0, 15.0  # seconds: every wait of the writer has a shorter limit of its own

Tables = Mapping[str, Sequence[Row]]


def check(track: Track) -> None:
    """Raise Mistake if tracking is asked for and cannot start; to be called before any work."""
    if track.kind == "wandb" and not _disabled() and importlib.util.find_spec("wandb") is None:
        raise Mistake("track=wandb: wandb is not installed; pip install 'rllc[wandb]'.")


class Collector:
    """Turns result rows, in any order, into W&B runs: one for each (training run, dataset), and one for the sweep.

    A curve is logged in step order: a step waits until all its planned cells and all earlier steps are there. A new
    collector writes everything again into new W&B runs, with the next number at the end of their ids: offline runs
    cannot be resumed, and an online run that is resumed may hold steps that were logged and not yet counted.

    No method raises for a fault of W&B or waits for it, except `finish` and `close`, which are bounded in time.
    """

    def __init__(self, sweep: Path, track: Track, planned: Iterable[Task]) -> None:
        """Start the sink; raises Mistake as `check` does."""
        check(track)
        self._sweep = sweep
        self._lines: dict[Curve, Line] = {}
        self._place: dict[str, tuple[Curve, int]] = {}
        for task in planned:
            curve = (task.run, task.dataset)
            self._place[task.key] = (curve, task.step)
            self._lines.setdefault(curve, Line()).awaited.setdefault(task.step, set()).add(task.key)
        self._sink = _sink(sweep, track)

    def __enter__(self) -> "Collector":
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def update(self, rows: Iterable[Row], *, failed: Iterable[str] = ()) -> None:
        """Take new rows, and the keys of tasks that failed and are waited for no longer; log what is now complete."""
        touched: set[Curve] = set()
        for row in rows:
            curve = (row["run"], row["dataset"])
            self._lines.setdefault(curve, Line()).put(row["step"], row["key"], row)
            touched.add(curve)
        for key in failed:
            curve, step = self._place[key]
            self._lines[curve].drop(step, key)
            touched.add(curve)
        for curve in sorted(touched):
            self._log(curve, self._lines[curve].ready())

    def finish(self, tables: Tables | None = None) -> None:
        """Log the incomplete steps too, then the run of the sweep, and wait for the end.

        The run of the sweep shows the tables, every report/*.png, and estimates.parquet as an artifact.
        """
        for curve in sorted(self._lines):
            self._log(curve, self._lines[curve].rest())
        figures = [str(path.relative_to(self._sweep)) for path in sorted((self._sweep / "report").glob("*.png"))]
        files = [name for name in ("estimates.parquet",) if (self._sweep / name).exists()]
        shown = {name: [dict(row) for row in rows[:TABLE_ROWS]] for name, rows in (tables or {}).items() if rows}
        if figures or files or shown:
            self._sink.log(Overview(shown, figures, files))
        self.close(ORDERLY)

    def close(self, seconds: float = HASTY) -> None:
        """Complete what was logged, or stop it after this time; for `finally`, and safe after `finish`."""
        self._sink.close(seconds)
        self._sink = Nothing()

    def _log(self, curve: Curve, released: Iterable[tuple[int, list[Row]]]) -> None:
        for step, rows in released:
            self._sink.log(Point(*curve, step, series(rows)))


def collect(sweep: Path, track: Track, rows: "pa.Table | Iterable[Row]", *, tables: Tables | None = None) -> None:
    """Write the W&B runs of a sweep from its result table, from nothing, and the table beside `tables`."""
    listed = _listed(rows)
    with Collector(sweep, track, ()) as collector:
        collector.update(listed)
        collector.finish({"estimates": [_shown(row) for row in listed[:TABLE_ROWS]], **(tables or {})})


def _sink(sweep: Path, track: Track) -> Sink:
    if track.kind == "none" or _disabled():
        return Nothing()
    folder = sweep.absolute() / "wandb"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):  # W&B would fall back to /tmp without a word
            pass
        return Feed(sweep.absolute(), {"sweep": str(sweep.absolute()), "track": dataclasses.asdict(track)})
    except OSError as fault:
        warn(f"W&B cannot write to {folder} ({fault.strerror}); the sweep goes on without it.")
        return Nothing()


def _disabled() -> bool:
    return os.environ.get("WANDB_MODE") == "disabled"


def _listed(rows: Any) -> list[Row]:
    if hasattr(rows, "to_pylist"):
        rows = rows.select([name for name in COLUMNS if name in rows.column_names]).to_pylist()
    return list(rows)


def _shown(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in COLUMNS if name in row}

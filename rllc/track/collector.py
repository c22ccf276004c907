"""From result rows, in any order, to the points of every curve in step order."""

import dataclasses
import hashlib
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from rllc.config import Track
from rllc.task import Task
from rllc.track.asked import check, shown
from rllc.track.feed import Feed, Nothing, Sink, warn
from rllc.track.losses import Losses
from rllc.track.points import TRAINING, Curve, Item, Line, Overview, Plan, Point, Released, Row, series

TABLE_ROWS = 10_000  # what a W&B table shows well; the artifact has everything
ORDERLY, HASTY = 300.0, 10.0  # seconds; the writer gives up sooner where its server does not answer

Shown = tuple[Mapping[str, Sequence[Row]], Sequence[Path]]  # tables by name, and files of figures


class Collector:
    """One W&B run for each (training run, dataset), one for the losses of each training, and one for the sweep.

    A curve is logged in step order: a step waits until all its planned cells and all earlier steps are there. Every
    collector sends everything again; what an online run has already is left out, see `rllc.track.turn`. The process
    that speaks to W&B starts with the first point, so a collector that is told nothing shows nothing.

    No method raises for a fault of W&B or waits for it, except `finish` and `close`, which are bounded in time.
    """

    def __init__(self, sweep: Path, track: Track, trainings: Mapping[str, Path], *, again: bool = False) -> None:
        """Show a sweep; `trainings` are the metrics files of its runs, `again` begins new W&B runs.

        Raises:
            Mistake: as `asked.check` does.
        """
        check(track)
        self._sweep, self._track, self._again = sweep.absolute(), track, again
        self._lines: dict[Curve, Line] = {}
        self._place: dict[str, tuple[Curve, int]] = {}
        self._trainings, self._losses = dict(trainings), defaultdict[str, Losses](Losses)
        self._plan: Plan | None = None
        self._begun = False  # a point of a curve was sent
        self._sink: Sink | None = None if shown(track) else Nothing()

    def __enter__(self) -> "Collector":
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    @property
    def alive(self) -> bool:
        """Whether what is logged still goes anywhere; true before the first point."""
        return self._sink is None or self._sink.alive

    def expect(self, planned: Iterable[Task]) -> None:
        """Learn what is planned; to be called before the first `update`."""
        for task in planned:
            curve = (task.run, task.dataset)
            self._place[task.key] = (curve, task.step)
            self._lines.setdefault(curve, Line()).expect(task.step, task.key)
        self._plan = Plan(hashlib.sha256("".join(sorted(self._place)).encode()).hexdigest())

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

    def watch(self, *, final: bool = False) -> None:
        """Log what the trainings have written since the last call; `final` says that they have ended."""
        for run, file in self._trainings.items():
            self._train(run, self._losses[run].read(file, final=final))

    def trained(self, run: str, lines: Iterable[Row]) -> None:
        """Log the losses of a training that has ended, lines with step and loss."""
        self._train(run, self._losses[run].take(lines, final=True))

    def finish(self, overview: Callable[[], Shown]) -> bool:
        """Log the incomplete steps too, then the run of the sweep, and wait for the end; whether all of it arrived.

        The run of the sweep shows the tables and the figures (files inside the sweep) that `overview` gives, and
        estimates.parquet as an artifact; there is none, and `overview` is not called, where no curve has a point.
        """
        for curve in sorted(self._lines):
            self._log(curve, self._lines[curve].rest())
        if self._begun:
            self.watch(final=True)
            tables, figures = overview()
            kept = {name: [dict(row) for row in rows[:TABLE_ROWS]] for name, rows in tables.items() if rows}
            files = [name for name in ("estimates.parquet",) if (self._sweep / name).exists()]
            self._send(Overview(kept, [str(path.relative_to(self._sweep)) for path in figures], files))
        return self.close(ORDERLY)

    def close(self, seconds: float = HASTY) -> bool:
        """Complete what was logged, or stop it after this time; for `finally`, and safe after `finish`."""
        arrived = self._sink is None or self._sink.close(seconds)
        self._sink = Nothing()
        return arrived

    def _log(self, curve: Curve, released: Iterable[Released]) -> None:
        for step in released:
            if self._plan and not self._begun:
                self._send(self._plan)
            self._begun = True
            self._send(Point(*curve, step.step, series(step.rows), step.whole))

    def _train(self, run: str, losses: Iterable[tuple[int, dict[str, float]]]) -> None:
        for step, values in losses:
            self._send(Point(run, TRAINING, step, values))

    def _send(self, item: Item) -> None:
        if self._sink is None:
            self._sink = sink(self._sweep, self._track, again=self._again)
        self._sink.log(item)


def sink(sweep: Path, track: Track, *, again: bool) -> Sink:
    """Start the process that speaks to W&B, or give a sink that shows nothing where that cannot be."""
    folder = sweep / "wandb"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):  # W&B would fall back to /tmp without a word
            pass
        return Feed(sweep, {"sweep": str(sweep), "track": dataclasses.asdict(track), "again": again})
    except OSError as fault:
        warn(f"W&B cannot write to {folder} ({fault.strerror}); the sweep goes on without it.")
        return Nothing()

"""Follows a sweep that others work on, and shows it in Weights & Biases: `rllc track`, or the job beside an array.

Runs as `python -m rllc.following SWEEP TRACK`, where TRACK are the options of `config.Track` as JSON.
"""

import argparse
import dataclasses
import json
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rllc import atomic, closing, gather, plan, store, track
from rllc.config import Track
from rllc.launch import queue, submission
from rllc.mistake import Mistake
from rllc.tail import Tail
from rllc.task import Task

POLL = 2.0  # seconds between looks at the index files
ASK = 15.0  # seconds between looks at who works, which may ask Slurm, and at the failures, which lie in 256 folders


def follow(sweep: Path, options: Track, *, working: Callable[[], bool | None], seconds: float = POLL) -> int:
    """Show a sweep until it ends; the exit code, 1 where W&B failed.

    The end is when `working` says that nobody works any more, or, where it says None because nobody can know, when
    every planned result is there or none has come for `options.quiet` seconds.

    Raises:
        Mistake: there is no plan, or W&B is not installed.
    """
    cells = plan.required(sweep)
    tasks = {cell.task.key: cell.task for cell in cells}
    with track.Collector(sweep, options, gather.trainings(sweep, cells)) as collector:
        collector.expect(tasks.values())
        watch = _Watch(sweep, tasks, collector, set(tasks))
        watch.tail.skip()
        watch.index()
        asked, known = time.monotonic(), working()
        while collector.alive and not _over(known, watch, options.quiet):
            time.sleep(seconds)
            watch.look()
            if time.monotonic() - asked >= ASK * seconds / POLL:
                asked, known = time.monotonic(), working()
                watch.failures()
        watch.index()
        if watch.missing:
            print(f"track: {len(watch.missing)} of {len(tasks)} results are missing", file=sys.stderr)
        return int(not collector.finish(lambda: closing.overview(sweep)))


def working(sweep: Path) -> bool | None:
    """Whether anybody is known to work on a sweep: who holds its marker, or jobs in a queue; None where nobody is.

    Workers that were started by hand leave no sign but their results, so that there is never a certain no.
    """
    if atomic.owned(sweep):
        return True
    submitted = submission.found(sweep)
    queued = queue.jobs() if submitted else []
    if queued is None:  # squeue does not answer: they may all be there
        return True
    alive = queue.jobs_of(sweep, queued, queue.settings().cluster) if queued else []
    return True if set(alive) - {one.track for one in submitted} else None


def command(sweep: Path, options: Track) -> list[str]:
    """Module and words of a process that follows a sweep."""
    return ["rllc.following", str(sweep), json.dumps(dataclasses.asdict(options))]


def main() -> int:
    """Parse the command line, and follow."""
    parser = argparse.ArgumentParser(prog="python -m rllc.following", description=__doc__)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("track", type=lambda text: Track(**json.loads(text)))
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return follow(asked.sweep, asked.track, working=lambda: working(asked.sweep))
    except Mistake as mistake:
        print(f"rllc: {mistake}", file=sys.stderr)
        return 2


@dataclass
class _Watch:
    """What has been seen of a sweep, handed to its collector."""

    sweep: Path
    tasks: dict[str, Task]
    collector: track.Collector
    missing: set[str]
    tail: Tail = field(init=False)
    arrived: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.tail = Tail(self.sweep / "index")

    def look(self) -> None:
        """Take the new index lines, and the losses of trainings under way."""
        self._take({entry["key"]: entry for entry in self.tail.new()})
        self.collector.watch()

    def failures(self) -> None:
        """Let no step wait for what has failed."""
        self.collector.update([], failed=store.errors(self.sweep).keys() & self.missing)

    def index(self) -> None:
        """Take all results, those among them whose writer was killed before it wrote a line."""
        self._take(store.index(self.sweep))
        self.collector.watch()

    def _take(self, entries: dict[str, dict[str, object]]) -> None:
        new = entries.keys() & self.missing
        self.collector.update(gather.line(self.tasks[key], entries[key]) for key in new)
        self.missing -= new
        if new:
            self.arrived = time.monotonic()


def _over(known: bool | None, watch: _Watch, quiet: float) -> bool:
    if known is None:
        return not watch.missing or time.monotonic() - watch.arrived > quiet
    return not known


if __name__ == "__main__":
    sys.exit(main())

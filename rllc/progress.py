"""Progress of long work: a bar with rate and time left on a terminal, plain lines every few seconds otherwise."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PLAIN_SECONDS = 5.0


Show = Callable[[int, int], None]


@contextmanager
def bar(title: str) -> Iterator[Show]:
    """Yield a function that is told how many of how many units are done; it may be called as often as one likes."""
    if sys.stderr.isatty():
        with _rich(title) as show:
            yield show
    else:
        plain = _Plain(title)
        try:
            yield plain
        finally:
            plain.close()


@contextmanager
def _rich(title: str) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Task as Line
    from rich.text import Text

    class Rate(ProgressColumn):
        """Units a second, at first a dash."""

        def render(self, task: Line) -> Text:
            speed = task.finished_speed or task.speed
            return Text("–/s" if speed is None else f"{speed:.3g}/s")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        line = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(line, completed=done, total=total)


class _Plain:
    """Lines on standard error, at most one every PLAIN_SECONDS, and one at the end, however it comes."""

    def __init__(self, title: str) -> None:
        self.title, self.first = title, -1
        self.last = self.shown = (0, 0)
        self.began = self.printed = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if self.first < 0:
            self.first = done
        self.last = (done, total)
        if done >= total or time.monotonic() - self.printed >= PLAIN_SECONDS:
            self.close()

    def close(self) -> None:
        """Print where it stands, unless the last line says so already."""
        if self.last == self.shown:
            return
        self.shown, self.printed = self.last, time.monotonic()
        done, total = self.last
        rate = (done - self.first) / max(self.printed - self.began, 1e-9)
        left = f", {clock((total - done) / rate)} left" if done < total and rate else ""
        print(f"{self.title}: {done}/{total}, {rate:.3g}/s{left}", file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss, or m:ss below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

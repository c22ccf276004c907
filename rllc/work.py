"""One worker: its share of the plan; it skips what is done and records what failed.

Run as `python -m rllc.work SWEEP --shard FILE --threads T --attempts N` by what launches it, or by hand on any machine
that sees the folder, as `--share 2/4`. Exit codes: 0 all of its share is done, 1 something failed or diverged, 75 it
was told to stop while there was more to do (SIGUSR1, or its parent is gone), 143 stopped by SIGTERM.
"""

import argparse
import dataclasses
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rllc import atomic, kept, modules, plan, pools, shards, store
from rllc.launch import attempts, local, processes
from rllc.launch.attempts import Attempts
from rllc.plan import Cell
from rllc.task import Estimate

if TYPE_CHECKING:
    from rllc.models.pool import Pool

MORE = 75
Outcome = Literal["done", "diverged", "failed", "stopped"]


class _Told(Exception):
    """The worker was told to stop before the next task."""


def work(
    sweep: Path,
    cells: Sequence[Cell],
    *,
    name: str,
    tried: Attempts | None = None,
    told: Callable[[], bool] = lambda: False,
) -> int:
    """Measure what is missing of some cells; the exit code.

    Args:
        sweep: its folder.
        cells: the worker's share.
        name: of its index file.
        tried: the record of what was begun; what has failed in it, or was begun too often, is passed over.
        told: whether to stop before the next task.
    """
    over = _given_up(sweep, cells, tried) if tried else set[str]()
    done = store.present(sweep, [cell.task.key for cell in cells])
    again = tried.cut() if tried else {}  # one of these may have killed its worker: each by itself
    mine = [
        dataclasses.replace(cell, together=1) if cell.task.key in again else cell
        for cell in cells
        if cell.task.key not in done | over
    ]
    hand = _Hand(sweep, tried, told)
    try:
        ends = set[Outcome]()
        for group, pool in pools.each(sweep.parent.parent, mine, hand.take):
            for cell, how in _attempt(sweep, group, pool, name):
                ends.add(hand.put(cell.task.key, how))
            del pool  # gone before the next checkpoint is loaded: two may not fit into memory
    except _Told:
        return MORE
    except OSError as error:
        if error.errno not in atomic.FULL:
            raise
        print(f"rllc: {sweep}: {error.strerror}; make room and run the same command again.", file=sys.stderr)
        return 1
    finally:
        with suppress(OSError):
            hand.drop()
    return int(bool(over or ends - {"done"}))


class _Hand:
    """The tasks in hand, one but for heads that step together, written down in the record of what was begun."""

    def __init__(self, sweep: Path, tried: Attempts | None, told: Callable[[], bool]) -> None:
        self.sweep, self.tried, self.told = sweep, tried, told
        self.keys: set[str] = set()

    def take(self, cell: Cell) -> bool:
        """Begin a task, unless it has a result by now, as where another worker was given it, too."""
        if self.told():
            raise _Told
        if store.path(self.sweep, cell.task.key).exists():
            return False
        if self.tried:
            self.tried.begin(cell.task.key)
        self.keys.add(cell.task.key)
        return True

    def put(self, key: str, how: Outcome) -> Outcome:
        """Say how one ended."""
        if self.tried:
            self.tried.end(key, "done" if how == "diverged" else how)
        self.keys.discard(key)
        return how

    def drop(self) -> None:
        """Say that what is in hand was stopped."""
        for key in sorted(self.keys):
            self.put(key, "stopped")


def _given_up(sweep: Path, cells: Sequence[Cell], tried: Attempts) -> set[str]:
    """Keys of what has failed; what was begun too often has now."""
    for key in tried.spent() - store.present(sweep, tried.spent()):
        store.put_error(
            sweep, key, f"begun {tried.most} times without a result: its worker was killed each time ({_suspicion()})\n"
        )
        tried.end(key, "failed")
    failed = tried.failed()
    return {cell.task.key for cell in cells if cell.task.key in failed}


def _suspicion() -> str:
    """What most often kills a worker, and under Slurm what to do about it."""
    return "out of memory?" + (" launch.mem asks for more" if "SLURM_JOB_ID" in os.environ else "")


def _attempt(
    sweep: Path, cells: Sequence[Cell], pool: "Pool | modules.Opened | Exception", name: str
) -> Iterator[tuple[Cell, Outcome]]:
    """Measure and store cells; how each ended. Any failure but a full disk is recorded and passed over.

    Where several at once fail, each is tried by itself.
    """
    try:
        if isinstance(pool, Exception):
            raise pool
        estimates = _measure(sweep, cells, pool)
        for estimate in estimates:
            store.put(sweep, estimate, name)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in atomic.FULL:
            raise
        if len(cells) > 1:
            for cell in cells:
                yield from _attempt(sweep, [cell], pool, name)
            return
        store.put_error(sweep, cells[0].task.key, traceback.format_exc())
        yield cells[0], "failed"
        return
    for cell, estimate in zip(cells, estimates, strict=True):
        yield cell, "diverged" if estimate.health == "diverged" else "done"


def _measure(sweep: Path, cells: Sequence[Cell], pool: "Pool | modules.Opened") -> list[Estimate]:
    from rllc.metrics import llc, named, token_losses

    (cell, *others) = cells
    if isinstance(pool, modules.Opened):
        return [modules.measure(cell.task, pool)]
    if others:
        return llc.measure_together([each.task for each in cells], pool)
    if cell.keep:
        return [token_losses.measure(cell.task, pool, rows=kept.ROWS, path=kept.path(sweep, cell.task.key))]
    return [named.MEASURES[cell.task.metric](cell.task, pool)]


def main() -> int:
    """Parse the command line, set the threads, and work."""
    parser = argparse.ArgumentParser(prog="python -m rllc.work", description=__doc__)
    parser.add_argument("sweep", type=Path)
    share = parser.add_mutually_exclusive_group()
    share.add_argument("--shard", type=Path, help="a file of cells; the whole plan by default")
    share.add_argument("--share", type=_share, help="I/N, the I-th of N parts of the plan, from 1")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--attempts", type=int, default=3, help="starts of a task of a shard that kills its worker")
    parser.add_argument("--parent", type=int, help="the process without which the worker stops")
    options = parser.parse_args()
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    os.environ.update(processes.environment(options.threads))
    import torch

    torch.set_num_threads(options.threads)
    cells, name, tried = _given(options)
    return work(
        options.sweep, cells, name=name, tried=tried,
        told=lambda: bool(asked) or options.parent not in (None, os.getppid()),
    )  # fmt: skip


def _given(options: argparse.Namespace) -> tuple[list[Cell], str, Attempts | None]:
    """The cells of the share that is asked for, the worker's name, and the record of its attempts.

    The name is that of a place, so that there are few of them however often a worker is started.
    """
    host = socket.gethostname()
    if options.shard:
        launched = options.shard.parent.parent.name
        name = f"{host if launched == local.FOLDER else launched}-{options.shard.stem}"
        return plan.read_lines(options.shard), name, Attempts(attempts.beside(options.shard), options.attempts)
    cells = plan.read(options.sweep)
    if options.share:
        place, count = options.share
        parts = shards.cut(cells, count)
        return parts[place - 1] if place <= len(parts) else [], f"{host}-{place}of{count}", None
    return cells, f"{host}-{os.getpid()}", None


def _share(text: str) -> tuple[int, int]:
    place, _, count = text.partition("/")
    if not (place.isdecimal() and count.isdecimal() and 1 <= int(place) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 1 to N")
    return int(place), int(count)


if __name__ == "__main__":
    sys.exit(main())

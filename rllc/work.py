"""One worker: its share of the plan; it skips what is done and records what failed.

Run as `python -m rllc.work SWEEP --cells START:STOP --threads T`. Exit codes: 0 all of its share is done, 1 something
failed or diverged, 75 it was told to stop while there was more to do, 143 stopped by SIGTERM.
"""

import argparse
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rllc import atomic, kept, modules, plan, store
from rllc.mistake import Mistake
from rllc.plan import Cell
from rllc.task import Estimate, Task

if TYPE_CHECKING:
    from rllc.models.pool import Pool

MORE = 75


def work(sweep: Path, share: slice = slice(None), *, parent: int | None = None) -> int:
    """Measure what is missing of a slice of the plan; the exit code.

    `parent` is the process that started the worker: when it is gone, the worker stops after the task in hand.
    """
    done = store.keys(sweep)
    mine = [cell for cell in plan.read(sweep)[share] if cell.task.key not in done]
    name = f"{socket.gethostname()}-{os.getpid()}"
    healthy = True
    try:
        for cell, pool in pools(sweep.parent.parent, mine):
            if parent is not None and os.getppid() != parent:
                return MORE
            healthy &= _attempt(sweep, cell, pool, name)
    except OSError as error:
        if error.errno not in atomic.FULL:
            raise
        print(f"rllc: {sweep}: {error.strerror}; make room and run the same command again.", file=sys.stderr)
        return 1
    return int(not healthy)


def _attempt(sweep: Path, cell: Cell, pool: "Pool | modules.Opened | Exception", name: str) -> bool:
    """Measure and store one cell; whether it went well. Any failure but a full disk is recorded and passed over."""
    try:
        if isinstance(pool, Exception):
            raise pool
        estimate = _measure(sweep, cell, pool)
        store.put(sweep, estimate, name)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in atomic.FULL:
            raise
        store.put_error(sweep, cell.task.key, traceback.format_exc())
        return False
    return estimate.health != "diverged"


def _measure(sweep: Path, cell: Cell, pool: "Pool | modules.Opened") -> Estimate:
    from rllc.metrics import llc, patterns, token_losses
    from rllc.models.pool import Pool

    if isinstance(pool, modules.Opened):
        return modules.measure(cell.task, pool)
    if cell.keep:
        return token_losses.measure(cell.task, pool, rows=kept.ROWS, path=kept.path(sweep, cell.task.key))

    measures: dict[str, Callable[[Task, Pool], Estimate]] = {
        "llc": llc.measure,
        "prev_token": partial(patterns.measure, score=patterns.prev_token),
        "current_token": partial(patterns.measure, score=patterns.current_token),
        "prefix": partial(patterns.measure, score=patterns.prefix),
    }
    return measures[cell.task.metric](cell.task, pool)


def pools(root: Path, cells: Sequence[Cell]) -> "Iterator[tuple[Cell, Pool | modules.Opened | Exception]]":
    """Each cell with the pool it is measured on; cells in a row that share the files and the block share the pool.

    A pool that cannot be opened is given as the exception, for each of its cells.
    """
    loaded: tuple[str, Any] = ("", None)
    for (checkpoint, *_), same in groupby(cells, key=_inputs):
        group = list(same)
        try:
            if group[0].make:
                pool: Pool | modules.Opened | Exception = modules.opened(root, group[0])
            else:
                if loaded[0] != checkpoint:
                    loaded = (checkpoint, _load(root / checkpoint, group[0].task.weights))
                pool = _open(loaded[1], root, group[0])
        except Exception as error:  # whatever is wrong with these files, the next ones may be whole
            pool = error
        for cell in group:
            yield cell, pool


def _inputs(cell: Cell) -> tuple[Any, ...]:
    """What a pool is made from; of the sampler that is the shape of a block and the precisions."""
    sampler = cell.task.sampler
    block = sampler and (sampler.chains, sampler.batch, sampler.dtype, sampler.products, sampler.backend)
    return cell.checkpoint, cell.rows, cell.task.loss, block


def _load(path: Path, weights: str) -> Any:
    from rllc.zoo import folder

    if folder.describe(path)[1] != weights:
        raise Mistake(f"{path} is no longer the file that was planned.")
    return folder.load(path)


def _open(loaded: Any, root: Path, cell: Cell) -> "Pool":
    import numpy as np

    from rllc.data.rows import content_hash
    from rllc.models.pool import Pool
    from rllc.models.soft import Labels

    (model, weights), task = loaded, cell.task
    rows = np.load(root / cell.rows, allow_pickle=False)
    if content_hash(rows) != task.rows:
        raise Mistake(f"{root / cell.rows} no longer holds the rows that were planned.")
    if not task.loss:
        return Pool.of(weights, model, rows, task.sampler)
    kind, _, digest = task.loss.partition(":")
    other, others = _load(root / cell.labels, digest)
    labels = Labels(kind, Pool.of(others, other, rows, task.sampler))
    return Pool.of(weights, model, rows, task.sampler, loss=labels.losses)


def main() -> int:
    """Parse the command line, set the threads, and work."""
    parser = argparse.ArgumentParser(prog="python -m rllc.work", description=__doc__)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--cells", default=":", help="START:STOP, lines of the plan from 0; all of them by default")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--parent", type=int)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    import torch

    torch.set_num_threads(options.threads)
    start, _, stop = options.cells.partition(":")
    share = slice(int(start) if start else None, int(stop) if stop else None)
    return work(options.sweep, share, parent=options.parent)


if __name__ == "__main__":
    sys.exit(main())

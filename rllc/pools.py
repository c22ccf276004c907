"""The cells of a share, each with what it is measured on: files are loaded, and references computed, once for many."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rllc import modules
from rllc.mistake import Mistake
from rllc.models import parts
from rllc.plan import Cell
from rllc.task import Task

if TYPE_CHECKING:
    from rllc.models.pool import Pool

IN_HAND = 1e14  # FLOP: about 20 minutes of a core, the most that a killed worker loses of heads that step together


def each(
    root: Path, cells: Sequence[Cell], begin: Callable[[Cell], bool] = lambda _: True
) -> "Iterator[tuple[list[Cell], Pool | modules.Opened | Exception]]":
    """Cells that are measured at once, with the pool they are measured on; most are alone.

    Cells in a row that share the files and the block share the pool. A pool that cannot be opened is given as the
    exception, for each of its cells. `begin` is called before cells are given and before a pool is opened for them, and
    says whether each is wanted.
    """
    loaded: tuple[str, Any] = ("", None)
    for (checkpoint, *_), same in groupby(cells, key=_inputs):
        pool: Pool | modules.Opened | Exception | None = None
        for group in _groups(same):
            wanted = [cell for cell in group if begin(cell)]
            if not wanted:
                continue
            if pool is None:
                try:
                    if wanted[0].make:
                        pool = modules.opened(root, wanted[0])
                    else:
                        if loaded[0] != checkpoint:
                            loaded = ("", None)
                            loaded = (checkpoint, _load(root / checkpoint, wanted[0].task.weights))
                        pool = _open(loaded[1], root, wanted[0])
                except Exception as error:  # whatever is wrong with these files, the next ones may be whole
                    pool = error
            yield wanted, pool


def _groups(cells: Iterable[Cell]) -> Iterator[list[Cell]]:
    """Cells in a row that step together: their number is that of the plan, and on a CPU their work at most IN_HAND."""
    import torch

    most = math.inf if torch.cuda.is_available() else IN_HAND
    group: list[Cell] = []
    for cell in cells:
        larger = [*group, cell]
        joins = len({_alike(each.task) for each in larger}) == 1 and len(larger) <= min(
            each.together for each in larger
        )
        if group and not (joins and sum(each.cost for each in larger) <= most):
            yield group
            larger = [cell]
        group = larger
    if group:
        yield group


def _alike(task: Task) -> tuple[Any, ...]:
    """What heads have in common that step together, on one pool."""
    return task.metric, task.seed, task.sampler, parts.place(task.part)[0]


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

    from rllc.data import tokenizer
    from rllc.data.rows import content_hash
    from rllc.models.pool import Pool
    from rllc.models.soft import Labels

    (model, weights), task = loaded, cell.task
    if not cell.rows:  # nothing but the weights is looked at
        return Pool.of(weights, model, np.empty((0, 1), np.int64), task.sampler)
    rows = np.load(root / cell.rows, allow_pickle=False)
    if content_hash(rows) != task.rows:
        raise Mistake(f"{root / cell.rows} no longer holds the rows that were planned.")
    if not task.loss:
        pool = Pool.of(weights, model, rows, task.sampler)
        pool.tokenizer = tokenizer.beside(root / cell.checkpoint)
        return pool
    kind, _, digest = task.loss.partition(":")
    other, others = _load(root / cell.labels, digest)
    labels = Labels(kind, Pool.of(others, other, rows, task.sampler))
    return Pool.of(weights, model, rows, task.sampler, loss=labels.losses)

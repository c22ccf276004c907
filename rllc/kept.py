"""Which cells also keep the losses of single tokens, and where those lie: sweeps/<sweep>/tokens/ab/ab12….parquet."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

from rllc.mistake import Mistake, unknown
from rllc.plan import Cell

ROWS = 32  # the first of the pool: the same for every part, checkpoint and seed
BYTES = 16  # of a token: row, position, token, excess
LIMIT = 2**30  # bytes of a sweep's tables


def path(sweep: Path, key: str) -> Path:
    """The file of one cell."""
    return sweep / "tokens" / key[:2] / f"{key}.parquet"


def mark(cells: Sequence[Cell], parts: Sequence[str], n_ctx: int, old: Iterable[Cell]) -> list[Cell]:
    """Give the cells, marked where the part is one of `parts` and λ̂ is measured.

    Raises:
        Mistake: a part is not in the grid, the tables would be larger than LIMIT, or a cell of the old plan has none.
    """
    legal = dict.fromkeys(cell.task.part for cell in cells if cell.task.metric == "llc")
    if missing := [part for part in parts if part not in legal]:
        raise unknown("grid.keep", missing[0], legal)
    marked = [
        dataclasses.replace(cell, keep=True, together=1)
        if cell.task.metric == "llc" and cell.task.part in parts
        else dataclasses.replace(cell, keep=False)
        for cell in cells
    ]
    count = sum(cell.keep for cell in marked)
    size = count * ROWS * (n_ctx - 1) * BYTES
    if size > LIMIT:
        raise Mistake(
            f"grid.keep: {count} cells would keep {size / 2**20:,.0f} MiB of token losses, more than "
            f"{LIMIT / 2**20:,.0f} MiB; keep fewer parts or steps."
        )
    bare = {cell.task.key for cell in old if not cell.keep}
    if again := next((cell.task for cell in marked if cell.keep and cell.task.key in bare), None):
        raise Mistake(f"grid.keep: {again.part} is planned here without its token losses; choose another name=.")
    return marked

"""Random tokens said twice: the rows on which prefix matching of attention heads is scored."""

from pathlib import Path

import numpy as np

from rllc.data.packing import dtype
from rllc.data.rows import Rows, put


def build(d_vocab: int, n_ctx: int, *, rows: int, seed: int, folder: Path, bos: int | None = None) -> Rows:
    """Write rows (rows, n_ctx) named "repeats": BOS, ⌊(n_ctx − 1)/2⌋ uniformly random tokens, and the same again.

    An even n_ctx leaves one place at the end, which takes one more random token. BOS (by default the last id) is
    never drawn.
    """
    start = d_vocab - 1 if bos is None else bos
    half = (n_ctx - 1) // 2
    drawn = np.random.default_rng(seed).integers(d_vocab - 1, size=(rows, n_ctx - 1 - half))
    drawn += drawn >= start
    first = np.full((rows, 1), start)
    return put("repeats", np.hstack([first, drawn[:, :half], drawn]).astype(dtype(d_vocab)), folder)

"""Rows that are written as they come and mapped back, so that any number of them takes constant memory."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from rllc.data.packing import Tokens

Spool = Callable[[Iterable[Tokens]], Tokens]


@contextmanager
def spool(folder: Path, n_ctx: int, kind: np.dtype[np.unsignedinteger[Any]]) -> Iterator[Spool]:
    """Yield a function that writes blocks of rows into a file of the folder and maps them, (n_rows, n_ctx), read only.

    The files have no name and are gone with the block, or with the process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as files:

        def keep(blocks: Iterable[Tokens]) -> Tokens:
            file, count = files.enter_context(TemporaryFile(dir=folder)), 0
            for block in blocks:
                file.write(np.ascontiguousarray(block).data)
                count += len(block)
            file.flush()
            if not count:
                return np.zeros((0, n_ctx), kind)
            return np.memmap(file, kind, "r", shape=(count, n_ctx))

        yield keep

"""Which rows a step sees: training batches and the minibatches of the chains, each a function of its counters alone."""

import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SPAN = (16, 32)  # tokens of a repeated span; at most a quarter to a half of a short row


def training(
    rows_array: NDArray[np.unsignedinteger[Any]], *, seed: int, step: int, batch: int, repeats: float
) -> NDArray[np.int64]:
    """Draw the training batch (batch, n_ctx) of one step, rows uniform with replacement.

    With probability `repeats` a row keeps its BOS, and one span of it of 16–32 tokens (n_ctx/4 to n_ctx/2 for n_ctx
    below 64) fills the rest over and over. Only (seed, step) enters the draw, so resuming needs no random state.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, step]))
    chosen = rows_array[rng.integers(len(rows_array), size=batch)].astype(np.int64)
    n_ctx = chosen.shape[1]
    low, high = (max(1, min(size, n_ctx * size // 64)) for size in _SPAN)
    length = rng.integers(low, high + 1, size=batch)
    start = 1 + rng.integers(n_ctx - length)
    tiled = start[:, None] + np.arange(n_ctx - 1) % length[:, None]
    replaced = rng.random(batch) < repeats
    chosen[replaced, 1:] = np.take_along_axis(chosen, tiled, axis=1)[replaced]
    return chosen


def estimation(
    n_rows: int, *, seed: int, run: str, dataset: str, chain: int, steps: int, batch: int
) -> NDArray[np.int64]:
    """Draw the row indices (steps, batch) of one chain, i.i.d. uniform with replacement.

    They depend on (seed, run, dataset, chain) only: all parts and checkpoints see the same minibatches, and fewer
    steps are a prefix of more.
    """
    name = json.dumps([seed, run, dataset, chain]).encode()
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(name).digest(), "big"))
    return rng.integers(n_rows, size=(steps, batch))

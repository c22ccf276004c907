"""Pools made from a pool for metrics that need fewer rows or other blocks, kept as long as it is."""

from collections.abc import Callable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from rllc.models.pool import Pool

ROWS, LEAST, TOKENS = 256, 64, 2**17  # of a pool of few rows: at most, and as few as this where they are long
CHAINS = 8  # points at which gradients are taken at once
BATCH = 8  # rows of each

_KEPT: WeakKeyDictionary[Pool, dict[str, Pool]] = WeakKeyDictionary()


def few(pool: Pool) -> Pool:
    """The same checkpoint on up to ROWS evenly spaced rows; on fewer where they are longer than TOKENS/ROWS."""

    def make() -> Pool:
        chosen = rows(pool)
        return Pool(pool.weights, pool.model, pool.tokens_NL[chosen], chains=1, batch=min(32, len(chosen)))

    return kept(pool, "few", make)


def rows(pool: Pool) -> Tensor:
    """The rows of the pool that `few` takes."""
    return spaced(pool, min(ROWS, max(LEAST, TOKENS // pool.tokens_NL.shape[1])))


def spaced(pool: Pool, wanted: int) -> Tensor:
    """Up to so many rows of the pool, evenly spaced."""
    count = len(pool.tokens_NL)
    wanted = min(wanted, count)
    return torch.arange(wanted, device=pool.tokens_NL.device) * count // wanted


def several(pool: Pool) -> Pool:
    """The same checkpoint and rows in blocks of CHAINS × BATCH: for gradients at several points at once."""
    return kept(pool, "several", lambda: Pool(pool.weights, pool.model, pool.tokens_NL, chains=CHAINS, batch=BATCH))


def kept(pool: Pool, name: str, make: Callable[[], Pool]) -> Pool:
    """What `make` gives, made once for a pool and name."""
    made = _KEPT.setdefault(pool, {})
    if name not in made:
        made[name] = make()
    return made[name]

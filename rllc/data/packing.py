"""From documents to rows of tokens: encoding, packing, and mixing the rows of several components."""

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rllc.data.tokenizer import Tokenizer

Tokens = NDArray[np.unsignedinteger[Any]]

_BATCH = 256  # documents encoded at once
_ROWS = 4096  # interleaved at once


def dtype(d_vocab: int) -> np.dtype[np.unsignedinteger[Any]]:
    """Return the smallest integer type that rows of this vocabulary are kept in."""
    return np.dtype(np.uint16 if d_vocab <= 2**16 else np.uint32)


def pack(documents: Iterable[str], tokenizer: Tokenizer, n_ctx: int) -> Iterator[Tokens]:
    """Encode documents, join them by BOS, chop the stream into n_ctx − 1 tokens and start each row with BOS.

    Yields rows (some, n_ctx), block by block; a last row that would not be full is dropped. Neither text nor rows are
    ever in memory at once.
    """
    kind = dtype(tokenizer.d_vocab)
    width = n_ctx - 1
    rest = np.zeros(0, kind)
    for stream in _streams(documents, tokenizer):
        stream = np.concatenate([rest, stream.astype(kind)])
        full = len(stream) // width
        block = np.full((full, n_ctx), tokenizer.bos, kind)
        block[:, 1:] = stream[: full * width].reshape(full, width)
        yield block
        rest = stream[full * width :]


def cycled(parts: Sequence[Tokens], weights: Sequence[float]) -> Iterator[Tokens]:
    """Interleave rows to the weights with every row used: what runs out early starts again. Yields them in blocks."""
    share = np.asarray(weights) / sum(weights)
    sizes = np.array([len(part) for part in parts])
    total = (sizes / share).max() if sizes.all() else 0
    return _interleave(parts, np.maximum(sizes, np.rint(total * share).astype(int)) * (total > 0), share)


def capped(parts: Sequence[Tokens], weights: Sequence[float]) -> Iterator[Tokens]:
    """Interleave rows to the weights without using any twice: the rows end with the part that runs out first."""
    share = np.asarray(weights) / sum(weights)
    sizes = np.array([len(part) for part in parts])
    return _interleave(parts, np.minimum(sizes, np.rint((sizes / share).min() * share).astype(int)), share)


def unseen(rows: Tokens, training: Tokens) -> NDArray[np.int64]:
    """The places of the rows that equal no training row."""
    assert rows.shape[1] == training.shape[1]
    assert rows.dtype == training.dtype
    own = [_mark(row) for row in rows]
    shared = set(own).intersection(map(_mark, training))
    return np.flatnonzero([mark not in shared for mark in own])


def _mark(row: Tokens) -> bytes:
    """What stands for a row: some bytes instead of thousands."""
    return hashlib.blake2b(row.data, digest_size=16).digest()


def _streams(documents: Iterable[str], tokenizer: Tokenizer) -> Iterator[NDArray[np.int64]]:
    """Yield the tokens of one batch of documents after the other, BOS between any two documents."""
    texts = iter(documents)
    separator: list[int] = []
    while batch := list(itertools.islice(texts, _BATCH)):
        ids: list[int] = []
        for encoded in tokenizer.encode(batch):
            ids += separator
            ids += encoded
            separator = [tokenizer.bos]
        yield np.array(ids, np.int64)


def _interleave(parts: Sequence[Tokens], counts: NDArray[np.int64], share: NDArray[np.float64]) -> Iterator[Tokens]:
    """Take counts[i] rows of part i in order, its m-th at the place (m + ½) / share[i]."""
    places = np.concatenate([(np.arange(count) + 0.5) / weight for count, weight in zip(counts, share, strict=True)])
    source = np.repeat(np.arange(len(parts)), counts)[np.argsort(places, kind="stable")]
    taken = [0] * len(parts)
    for start in range(0, len(source), _ROWS):
        of = source[start : start + _ROWS]
        mixed = np.zeros((len(of), parts[0].shape[1]), parts[0].dtype)
        for number, part in enumerate(parts):
            mine = of == number
            mixed[mine] = part[(taken[number] + np.arange(mine.sum())) % max(len(part), 1)]
            taken[number] += int(mine.sum())
        yield mixed

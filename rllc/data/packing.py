"""From documents to rows of tokens: encoding, packing, and mixing the rows of several components."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rllc.data.tokenizer import Tokenizer

Tokens = NDArray[np.unsignedinteger[Any]]

_BATCH = 256  # documents encoded at once


def dtype(d_vocab: int) -> np.dtype[np.unsignedinteger[Any]]:
    """Return the smallest integer type that rows of this vocabulary are kept in."""
    return np.dtype(np.uint16 if d_vocab <= 2**16 else np.uint32)


def pack(documents: Iterable[str], tokenizer: Tokenizer, n_ctx: int) -> Tokens:
    """Encode documents, join them by BOS, chop the stream into n_ctx − 1 tokens and start each row with BOS.

    Returns rows (n_rows, n_ctx); a last row that would not be full is dropped. The text is never in memory at once.
    """
    kind = dtype(tokenizer.d_vocab)
    width = n_ctx - 1
    blocks: list[Tokens] = []
    rest = np.zeros(0, kind)
    for stream in _streams(documents, tokenizer):
        stream = np.concatenate([rest, stream.astype(kind)])
        full = len(stream) // width
        block = np.full((full, n_ctx), tokenizer.bos, kind)
        block[:, 1:] = stream[: full * width].reshape(full, width)
        blocks.append(block)
        rest = stream[full * width :]
    return np.concatenate([np.zeros((0, n_ctx), kind), *blocks])


def cycled(parts: Sequence[Tokens], weights: Sequence[float]) -> Tokens:
    """Interleave rows to the weights with every row used: what runs out early starts again."""
    share = np.asarray(weights) / sum(weights)
    sizes = np.array([len(part) for part in parts])
    total = (sizes / share).max() if sizes.all() else 0
    return _interleave(parts, np.maximum(sizes, np.rint(total * share).astype(int)) * (total > 0), share)


def capped(parts: Sequence[Tokens], weights: Sequence[float]) -> Tokens:
    """Interleave rows to the weights without using any twice: the rows end with the part that runs out first."""
    share = np.asarray(weights) / sum(weights)
    sizes = np.array([len(part) for part in parts])
    return _interleave(parts, np.minimum(sizes, np.rint((sizes / share).min() * share).astype(int)), share)


def unseen(rows: Tokens, training: Tokens) -> Tokens:
    """Drop the rows that equal some training row."""
    assert rows.shape[1] == training.shape[1]
    assert rows.dtype == training.dtype
    own = [row.tobytes() for row in rows]
    shared = set(own).intersection(row.tobytes() for row in training)
    return rows[[row not in shared for row in own]]


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


def _interleave(parts: Sequence[Tokens], counts: NDArray[np.int64], share: NDArray[np.float64]) -> Tokens:
    """Take counts[i] rows of part i in order, its m-th at the place (m + ½) / share[i]."""
    places = np.concatenate([(np.arange(count) + 0.5) / weight for count, weight in zip(counts, share, strict=True)])
    source = np.repeat(np.arange(len(parts)), counts)[np.argsort(places, kind="stable")]
    mixed = np.zeros((len(source), parts[0].shape[1]), parts[0].dtype)
    for number, (part, count) in enumerate(zip(parts, counts, strict=True)):
        mixed[source == number] = part[np.arange(count) % max(len(part), 1)]
    return mixed

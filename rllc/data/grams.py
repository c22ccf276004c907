"""What tokens tell of the next one in a text: n-grams, skip-bigrams, and copies of what stood before in the row.

Shapes: N rows, L positions.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.integer[Any]]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int64]

ROWS = 8  # in which an n-gram or skip-bigram must stand before it counts as one of the text's
LIFT = 4.0  # times that its last token follows its context more often than it occurs at all
SPAN = 8  # tokens back to which the first token of a skip-bigram may stand; from 2 on


def ending(tokens_NL: Tokens, n: int) -> Codes:
    """A number for the n-gram that ends at each position, equal where the n-grams are, (N, L); −1 for the first n − 1.

    They are numbered from 0 in the order of their tokens.
    """
    codes_NL = tokens_NL.astype(np.int64)
    for _ in range(n - 1):
        longer = np.full(codes_NL.shape, -1, np.int64)
        pair = codes_NL[:, :-1] * (int(tokens_NL.max()) + 1) + tokens_NL[:, 1:]
        known = codes_NL[:, :-1] >= 0
        longer[:, 1:][known] = np.unique(pair[known], return_inverse=True)[1]
        codes_NL = longer
    return codes_NL


def common(tokens_NL: Tokens, n: int, most: int) -> Flags:
    """Where one of the `most` most frequent n-grams of the rows ends, (N, L); of equally frequent ones the first."""
    codes_NL = ending(tokens_NL, n)
    counts = np.bincount(codes_NL[codes_NL >= 0])
    chosen = np.zeros(len(counts) + 1, bool)
    chosen[np.argsort(-counts, kind="stable")[:most]] = True
    return np.asarray(chosen[codes_NL] & (codes_NL >= 0))


def copied(tokens_NL: Tokens) -> Flags:
    """Where the token and the one before it stood together before in the row, (N, L): what induction can tell."""
    pair_NL = ending(tokens_NL, 2)
    order_NL = np.argsort(pair_NL, axis=1, kind="stable")
    sorted_NL = np.take_along_axis(pair_NL, order_NL, 1)
    again_NL = np.zeros(pair_NL.shape, bool)
    np.put_along_axis(again_NL, order_NL[:, 1:], sorted_NL[:, 1:] == sorted_NL[:, :-1], 1)
    return np.asarray(again_NL & (pair_NL >= 0))


def known(tokens_NL: Tokens, n: int) -> Codes:
    """The number of the n-gram that ends at each position where it is one of the text's (see ROWS, LIFT), else −1."""
    codes_NL, shorter_NL = ending(tokens_NL, n), ending(tokens_NL, n - 1)
    before, last = shorter_NL[:, n - 2 : -1].ravel(), tokens_NL[:, n - 1 :].ravel().astype(np.int64)
    rows = np.repeat(np.arange(len(tokens_NL)), tokens_NL.shape[1] - n + 1)
    own_NL = np.full(tokens_NL.shape, -1, np.int64)
    typical = _typical(before, last, rows, np.bincount(tokens_NL.ravel()))
    own_NL[:, n - 1 :] = np.where(typical.reshape(len(tokens_NL), -1) > 0, codes_NL[:, n - 1 :], -1)
    return own_NL


def skipping(tokens_NL: Tokens) -> Codes:
    """The skip-bigram with the largest lift that ends at each position, (N, L); −1 where none is one of the text's.

    A skip-bigram (a, b) is b with an a between 2 and SPAN tokens before it; it is numbered a · V + b.
    """
    count, length = tokens_NL.shape
    ids, spans = tokens_NL.astype(np.int64), range(2, min(SPAN, length - 1) + 1)
    first, last, rows, at = (np.concatenate(pieces) for pieces in zip(*(
        (ids[:, :-d].ravel(), ids[:, d:].ravel(), np.repeat(np.arange(count), length - d),
         (np.arange(count)[:, None] * length + np.arange(d, length)).ravel())
        for d in spans), strict=True))  # fmt: skip
    lift = _typical(first, last, rows, np.bincount(ids.ravel()))
    best = np.zeros(count * length)
    np.maximum.at(best, at, lift)
    found, hit = np.full(count * length, -1, np.int64), (lift > 0) & (lift == best[at])
    found[at[hit]] = first[hit] * (int(ids.max()) + 1) + last[hit]
    return found.reshape(count, length)


def _typical(before: Codes, last: Codes, rows: Codes, unigram: Codes) -> NDArray[np.float64]:
    """Lift P(last | before) / P(last) of each pair that stands in ROWS rows with a lift of LIFT or more, else 0."""
    _, pair = np.unique(before * len(unigram) + last, return_inverse=True)
    lift = np.bincount(pair)[pair] / np.bincount(before)[before] * unigram.sum() / unigram[last]
    seen = np.unique(pair * (int(rows.max()) + 1) + rows) // (int(rows.max()) + 1)
    return np.asarray(np.where((np.bincount(seen)[pair] >= ROWS) & (lift >= LIFT), lift, 0.0))

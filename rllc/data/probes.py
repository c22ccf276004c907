"""Rows of tokens that are no text: random tokens said twice, and a corpus's n-gram statistics without its structure."""

import numpy as np

from rllc.data.packing import Tokens, dtype


def repeats(d_vocab: int, n_ctx: int, *, count: int, seed: int, bos: int) -> Tokens:
    """Draw rows (count, n_ctx): BOS, ⌊(n_ctx − 1)/2⌋ uniformly random tokens, and the same again.

    An even n_ctx leaves one place at the end, which takes one more random token. BOS is never drawn.
    """
    half = (n_ctx - 1) // 2
    drawn = np.random.default_rng(seed).integers(d_vocab - 1, size=(count, n_ctx - 1 - half))
    drawn += drawn >= bos
    first = np.full((count, 1), bos)
    return np.hstack([first, drawn[:, :half], drawn]).astype(dtype(d_vocab))


def ngrams(corpus_NL: Tokens, order: int, *, count: int, seed: int) -> Tokens:
    """Draw rows (count, L) in which each token, given the order − 1 before it, has the frequencies of the corpus.

    A token is drawn by going to a uniformly drawn occurrence of its context in the corpus and taking what follows
    there; after the end of a row of the corpus, and at the start, a place is drawn anew. Order 1 gives independent
    tokens with the frequencies of the corpus. Each row starts with BOS, the first token of the corpus's rows.
    """
    rng, before = np.random.default_rng(seed), order - 1
    body = np.asarray(corpus_NL[:, 1:], np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(body, order, axis=1).reshape(-1, order)  # with what follows
    per_row = body.shape[1] - before
    _, context = np.unique(windows[:, :before], axis=0, return_inverse=True)
    context = context.reshape(-1)  # numpy 2.0 gives it another shape
    places = np.argsort(context, kind="stable")
    starts = np.searchsorted(context[places], np.arange(context.max() + 2))
    drawn = np.empty((count, body.shape[1]), np.int64)
    at = rng.integers(len(windows), size=count)
    for column in range(drawn.shape[1]):
        low, high = starts[context[at]], starts[context[at] + 1]
        chosen = places[rng.integers(low, high)]
        drawn[:, column] = windows[chosen, before]
        anew = rng.integers(len(windows), size=count)
        at = np.where((chosen + 1) % per_row == 0, anew, chosen + 1)  # the next context begins one place on
    first = np.full((count, 1), corpus_NL[0, 0])
    return np.hstack([first, drawn]).astype(corpus_NL.dtype)

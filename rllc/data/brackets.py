"""Brackets in tokens: which tokens hold them, and for each that closes one the place where it was opened.

Shapes: N rows, L positions.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rllc.data import tokenizer

CLOSING = {")": "(", "]": "[", "}": "{"}
OPENING = frozenset(CLOSING.values())


def signs(file: Path) -> dict[int, str]:
    """The brackets of each token of a tokenizer.json that holds any, in their order: id → "(" or ")]" or …

    Raises:
        Mistake: the file is missing or not a tokenizer.
    """
    vocabulary = tokenizer.load(file).bpe.get_vocab()
    held = {at: "".join(letter for letter in text if letter in CLOSING or letter in OPENING)
            for text, at in vocabulary.items()}  # fmt: skip
    return {at: text for at, text in sorted(held.items()) if text}


def partners(tokens_NL: NDArray[np.integer[Any]], signs: Mapping[int, str]) -> NDArray[np.int64]:
    """For each token the place of the one that opened the last bracket it closes, (N, L); −1 where it closes none.

    A bracket opened within the same token does not count. Brackets nest: one that closes another kind than the last
    open one, or closes when none is open, makes all that were open forgotten.
    """
    found_NL = np.full(tokens_NL.shape, -1, np.int64)
    holds_NL = np.isin(tokens_NL, list(signs))
    for row in range(len(tokens_NL)):
        unclosed: list[tuple[str, int]] = []
        for position in np.flatnonzero(holds_NL[row]).tolist():
            for letter in signs[int(tokens_NL[row, position])]:
                if letter in OPENING:
                    unclosed.append((letter, position))
                elif unclosed and unclosed[-1][0] == CLOSING[letter]:
                    place = unclosed.pop()[1]
                    found_NL[row, position] = place if place < position else found_NL[row, position]
                else:
                    unclosed.clear()
    return found_NL

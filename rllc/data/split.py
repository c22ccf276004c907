"""Which text trains and which is kept for estimation: decided by the text alone, alike for every dataset and seed."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Literal, get_args

Split = Literal["train", "pool"]
NAMES: tuple[str, ...] = get_args(Split)

LONGEST = 8192  # characters of a piece
_SHARE = 10  # one piece in so many goes to the pool


def pieces(document: str) -> Iterator[str]:
    """Cut a document into pieces of at most `LONGEST` characters, at line ends where there are any.

    Joined, the pieces are the document. They are what is assigned to a split, so that one long file has both.
    """
    start = 0
    while len(document) - start > LONGEST:
        end = document.rfind("\n", start, start + LONGEST) + 1 or start + LONGEST
        yield document[start:end]
        start = end
    yield document[start:]


def side(piece: str) -> Split:
    """Assign a piece by the hash of its text: about one in ten to the pool."""
    number = int.from_bytes(hashlib.sha256(piece.encode()).digest()[:8], "big")
    return "pool" if number % _SHARE == 0 else "train"


def select(documents: Iterable[str], split: str) -> Iterator[str]:
    """Yield the pieces of one split that hold more than white space, in order."""
    for document in documents:
        for piece in pieces(document):
            if piece.strip() and side(piece) == split:
                yield piece

"""Balanced brackets of four kinds: text on which heads that match brackets show, and nothing else is to be learned."""

import random
from collections.abc import Iterator

KINDS = ("()", "[]", "{}", "<>")
DEEPEST = 12
MANY = 4096  # documents of a dataset that says no limit
_PAIRS = (32, 512)  # of a document, at least and at most


def documents(seed: int = 0) -> Iterator[str]:
    """Yield documents without end, the same for the same seed.

    Each has a uniformly drawn number of pairs. From left to right a bracket of a random kind is opened, or the
    innermost one closed, with equal chances where both are legal; at most DEEPEST are open, and in the end none.
    """
    rng = random.Random(seed)
    while True:
        left, inner, text = rng.randint(*_PAIRS), list[str](), list[str]()
        while left or inner:
            opens = left and (not inner or (len(inner) < DEEPEST and rng.random() < 0.5))
            if opens:
                kind = rng.choice(KINDS)
                text.append(kind[0])
                inner.append(kind[1])
                left -= 1
            else:
                text.append(inner.pop())
        yield "".join(text)

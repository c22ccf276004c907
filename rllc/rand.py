"""The adjusted Rand index of two groupings, and its distribution under chance.

Shape letters: N arrangements, P parts, K groups, J types.
"""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

ARRANGEMENTS = 20_000  # up to so many, all are enumerated
PERMUTATIONS = 10_000  # else so many are drawn


@dataclass(frozen=True)
class Null:
    """Values of an index when types are dealt at random: all arrangements, or a sample of them."""

    ari_N: Values
    exact: bool


def p_value(ari: float, nulls: Sequence[Null], *, seed: int) -> float:
    """Share of independent arrangements in all nulls whose mean ARI is at least `ari`."""
    exact = all(null.exact for null in nulls) and math.prod(len(null.ari_N) for null in nulls) <= ARRANGEMENTS
    if exact:
        sums: Values = functools.reduce(lambda one, other: np.add.outer(one, other).ravel(), (n.ari_N for n in nulls))
    elif len(nulls) == 1:
        sums = nulls[0].ari_N
    else:
        rng = np.random.default_rng(seed)
        sums = np.sum([rng.choice(null.ari_N, PERMUTATIONS) for null in nulls], axis=0)
    as_large = int(np.sum(sums / len(nulls) >= ari - 1e-9))
    return as_large / len(sums) if exact else (1 + as_large) / (1 + len(sums))


@functools.cache
def chance(group_sizes: tuple[int, ...], type_sizes: tuple[int, ...], seed: int) -> Null:
    """Give the ARI under random arrangements of the types; it depends on the sizes only."""
    label_P = np.repeat(np.arange(len(group_sizes)), group_sizes)
    type_P = np.repeat(np.arange(len(type_sizes)), type_sizes)
    count = math.factorial(len(type_P)) // math.prod(math.factorial(size) for size in type_sizes)
    if count <= ARRANGEMENTS:
        return Null(index(label_P, np.array(list(_arrangements(type_sizes)))), True)
    rng = np.random.default_rng(seed)
    dealt_NP = rng.permuted(np.tile(type_P, (PERMUTATIONS, 1)), axis=1)
    return Null(index(label_P, dealt_NP), False)


def index(label_P: NDArray[np.intp], type_NP: NDArray[np.intp]) -> Values:
    """Adjusted Rand index of one clustering with each of N others; NaN where both are all one or all alone."""
    member_PK = (label_P[:, None] == np.unique(label_P)).astype(np.float64)
    table_NJK = np.stack([(type_NP == kind).astype(np.float64) @ member_PK for kind in np.unique(type_NP)], axis=1)
    both_N = _pairs(table_NJK).sum(axis=(1, 2))
    one_N, other_N = _pairs(table_NJK.sum(axis=1)).sum(axis=1), _pairs(table_NJK.sum(axis=2)).sum(axis=1)
    expected_N = one_N * other_N / max(_pairs(np.float64(len(label_P))), 1)
    most_N = (one_N + other_N) / 2
    with np.errstate(invalid="ignore"):
        return np.asarray((both_N - expected_N) / (most_N - expected_N))


def _pairs(count: Values | np.float64) -> Values:
    return np.asarray(count * (count - 1) / 2)


def sizes(of_P: NDArray[np.intp]) -> tuple[int, ...]:
    """Give the sizes of the groups, ascending."""
    return tuple(sorted(np.unique(of_P, return_counts=True)[1].tolist()))


def _arrangements(sizes: tuple[int, ...]) -> Iterator[list[int]]:
    """Give all distinct arrangements of sizes[0] zeros, sizes[1] ones, …"""

    def deal(kind: int, free: tuple[int, ...], dealt: dict[int, int]) -> Iterator[list[int]]:
        if kind == len(sizes):
            yield [dealt[place] for place in range(sum(sizes))]
            return
        for places in itertools.combinations(free, sizes[kind]):
            rest = tuple(place for place in free if place not in places)
            yield from deal(kind + 1, rest, {**dealt, **dict.fromkeys(places, kind)})

    yield from deal(0, tuple(range(sum(sizes))), {})

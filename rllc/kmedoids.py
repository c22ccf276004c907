"""k-medoids: clusters about k of the points themselves, from their distances alone, without randomness.

Shape letters: P points, K medoids, Q points of a block.
"""

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.floating]
Index = NDArray[np.intp]

BLOCK = 1024  # candidates that are weighed at once
SWAPS = 1000  # at most; each lowers the sum, so that few are needed


def fit(dist_PP: Values, k: int) -> Index:
    """Give the medoids of the partition around medoids, by BUILD and best swaps.

    They make Σ_p min_k dist(p, medoid_k) as small as no swap of a medoid for another point can make smaller (Kaufman
    and Rousseeuw, Finding Groups in Data, 1990, chapter 2); all swaps are weighed at once as in FastPAM (Schubert and
    Rousseeuw, 2019). Ties go to the first point.
    """
    assert 1 <= k <= len(dist_PP), "as many medoids as points at most"
    medoid_K = _build(dist_PP, k)
    for _ in range(SWAPS):
        gain, out, into = _best_swap(dist_PP, medoid_K)
        if gain <= 1e-12 * max(float(dist_PP[:, medoid_K].min(axis=1).sum()), 1e-300):
            break
        medoid_K[out] = into
    return medoid_K


def labels(dist_PP: Values, medoid_K: Index) -> Index:
    """Give each point the place of its nearest medoid."""
    return np.asarray(dist_PP[:, medoid_K].argmin(axis=1))


def medoid(dist_PP: Values) -> int:
    """Name the point from which all others are least far in sum."""
    return int(dist_PP.sum(axis=0).argmin())


def _build(dist_PP: Values, k: int) -> Index:
    """Add one medoid after the other, each where the sum falls most."""
    chosen = [medoid(dist_PP)]
    near_P = dist_PP[:, chosen[0]].copy()
    while len(chosen) < k:
        gain_P = np.concatenate([np.maximum(near_P[:, None] - block, 0).sum(axis=0) for _, block in _blocks(dist_PP)])
        gain_P[chosen] = -1
        chosen.append(int(gain_P.argmax()))
        near_P = np.minimum(near_P, dist_PP[:, chosen[-1]])
    return np.array(chosen, dtype=np.intp)


def _best_swap(dist_PP: Values, medoid_K: Index) -> tuple[float, int, int]:
    """Find the medoid to take out, the point to take in, and how much the sum falls by it."""
    own_PK = dist_PP[:, medoid_K]
    label_P, every_P = own_PK.argmin(axis=1), np.arange(len(dist_PP))
    first_P = own_PK[every_P, label_P]
    rest_PK = own_PK.copy()
    rest_PK[every_P, label_P] = np.inf
    second_P = rest_PK.min(axis=1)
    second_P = np.where(np.isfinite(second_P), second_P, dist_PP.max())
    member_PK = (label_P[:, None] == np.arange(len(medoid_K))).astype(dist_PP.dtype)
    best = (-np.inf, 0, 0)
    for start, block_PQ in _blocks(dist_PP):
        kept_PQ = np.minimum(block_PQ, first_P[:, None])
        lost_PQ = np.minimum(block_PQ, second_P[:, None]) - kept_PQ
        fall_KQ = (first_P[:, None] - kept_PQ).sum(axis=0)[None] - member_PK.T @ lost_PQ
        out, into = np.unravel_index(int(fall_KQ.argmax()), fall_KQ.shape)
        best = max(best, (float(fall_KQ[out, into]), int(out), start + int(into)), key=lambda found: found[0])
    return best


def _blocks(dist_PP: Values) -> list[tuple[int, Values]]:
    return [(start, dist_PP[:, start : start + BLOCK]) for start in range(0, len(dist_PP), BLOCK)]

"""k-shape: clusters of series that have the same shape, whatever their scale and up to a shift in time.

The algorithm of Paparrizos and Gravano (SIGMOD 2015), several channels sharing one shift. With the same seed it takes
the same starts as `tslearn.clustering.KShape` and gives the same labels (tests compare them), without the half minute
of just-in-time compilation that the latter needs in every process.

Shape letters: P series, K clusters, T points, D channels, F frequencies.
"""

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Labels = NDArray[np.intp]

ITERATIONS = 100
TOLERANCE = 1e-6


def fit(series_PTD: Values, k: int, *, n_init: int, seed: int) -> tuple[Labels, float] | None:
    """Cluster z-normalised series.

    Args:
        series_PTD: each channel with mean 0 and standard deviation 1.
        k: clusters.
        n_init: starts that have to succeed, out of at most max(n_init, 10); the one with the least inertia wins.
        seed: of the starts; a start takes k of the series as centres.

    Returns:
        Labels and inertia (mean squared shape-based distance to the own centre), or None if in every start a cluster
        became empty.
    """
    rng = np.random.RandomState(seed)
    found = []
    for _ in range(max(n_init, 10)):
        start = _descend(series_PTD, series_PTD[rng.choice(len(series_PTD), k, replace=False)])
        found += [] if start is None else [start]
        if len(found) == n_init:
            break
    return min(found, key=lambda start: start[1], default=None)


def refit(series_PTD: Values, label_P: Labels) -> Labels | None:
    """Cluster z-normalised series from the groups of similar ones; None if a cluster became empty."""
    groups = [series_PTD[label_P == label] for label in range(label_P.max() + 1)]
    found = _descend(series_PTD, np.stack([_centre(member_PTD, member_PTD[0]) for member_PTD in groups]))
    return None if found is None else found[0]


def distances(one_PTD: Values, other_KTD: Values) -> Values:
    """Shape-based distance dist_PK = 1 − the largest cross-correlation over shifts, of unit-norm series."""
    return np.asarray(1 - _correlations(one_PTD, other_KTD).max(axis=2))


def _correlations(one_PTD: Values, other_KTD: Values) -> Values:
    """Normalised cross-correlation at the shifts −(T−1) … T−1 of `other` against `one`."""
    points = one_PTD.shape[1]
    size = 1 << (2 * points - 1).bit_length()
    one_PFD, other_KFD = np.fft.rfft(one_PTD, size, axis=1), np.fft.rfft(other_KTD, size, axis=1)
    product_PKF = np.einsum("pfd,kfd->pkf", one_PFD, other_KFD.conj())
    full = np.fft.irfft(product_PKF, size, axis=2)
    sums = np.concatenate([full[:, :, size - points + 1 :], full[:, :, :points]], axis=2)
    norm_PK = np.outer(np.linalg.norm(one_PTD, axis=(1, 2)), np.linalg.norm(other_KTD, axis=(1, 2)))
    norm_PK[norm_PK < 1e-9] = np.inf
    return np.asarray(sums / norm_PK[:, :, None])


def _descend(series_PTD: Values, centre_KTD: Values) -> tuple[Labels, float] | None:
    """Alternate centres and labels until the inertia settles; None when a cluster becomes empty."""
    best = _assign(series_PTD, centre_KTD)
    for iteration in range(ITERATIONS):
        if best is None:
            return None
        centre_KTD = np.stack([_centre(series_PTD[best[0] == k], centre) for k, centre in enumerate(centre_KTD)])
        new = _assign(series_PTD, centre_KTD)
        if new is not None and iteration and (best[1] - new[1] < TOLERANCE):
            return best
        best = new
    return best


def _assign(series_PTD: Values, centre_KTD: Values) -> tuple[Labels, float] | None:
    dist_PK = distances(series_PTD, centre_KTD)
    label_P = dist_PK.argmin(axis=1)
    if len(np.unique(label_P)) < len(centre_KTD):
        return None
    return label_P, float(np.mean(dist_PK.min(axis=1) ** 2))


def _centre(member_PTD: Values, centre_TD: Values) -> Values:
    """Shape extraction: the unit series most correlated with the members once they are shifted onto the old centre."""
    points = len(centre_TD)
    shift_P = _correlations(centre_TD[None], member_PTD)[0].argmax(axis=1) - (points - 1)
    aligned_PTD = np.zeros_like(member_PTD)
    for p, shift in enumerate(shift_P):
        aligned_PTD[p, max(shift, 0) : points + min(shift, 0)] = member_PTD[p, max(-shift, 0) : points - max(shift, 0)]
    channels = []
    for channel_PT in np.moveaxis(aligned_PTD, 2, 0):
        top_T = np.linalg.svd(channel_PT - channel_PT.mean(axis=1, keepdims=True), full_matrices=False)[2][0]
        channels.append(top_T if (channel_PT @ top_T).sum() >= 0 else -top_T)
    new_TD = np.stack(channels, axis=1)
    new_TD = new_TD - new_TD.mean(axis=0)
    return np.asarray(new_TD / np.where(new_TD.std(axis=0) > 0, new_TD.std(axis=0), 1.0))

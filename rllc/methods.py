"""The four clustering methods behind one call, each either giving k clusters or saying why not.

Shape letters: P parts, T points of a curve, D datasets.
"""

import warnings

import numpy as np
from numpy.typing import NDArray

from rllc import dtw, kshape
from rllc.config import Method

Values = NDArray[np.float64]

TRIES = 3  # seeds tried before a method is said to fail
DTW_STARTS = 3  # at most: a start costs some hundred times one of k-means
SAME = 1e-9  # curves closer than this, relative to the largest value, count as one


def fit(method: Method, series_PTD: Values, *, k: int, n_init: int, seed: int) -> NDArray[np.intp] | str:
    """Cluster curves into exactly k groups.

    Args:
        method: kmeans and ward see a curve as a point in T·D dimensions; dtw_kmeans (DTW within a band, barycentre
            averaging) and kshape (which needs z-normalised series) as a series of D channels.
        series_PTD: the curves, finite.
        k: groups.
        n_init: starts of the seeded methods, of which the best is kept; dtw_kmeans takes at most DTW_STARTS.
        seed: of the starts; if a cluster stays empty in all of them, TRIES − 1 further seeds are tried.

    Returns:
        The labels, or the reason why there are no k groups; fewer than k are never returned.
    """
    assert np.isfinite(series_PTD).all(), "curves with holes cannot be clustered"
    points = series_PTD.reshape(len(series_PTD), -1)
    distinct = len(np.unique(np.round(points / (SAME * max(np.abs(points).max(), 1e-300))), axis=0))
    if distinct < k:
        return f"only {distinct} of {len(points)} curves differ"
    for attempt in range(TRIES):
        label_P = _once(method, series_PTD, k, n_init, seed + attempt)
        if label_P is not None and len(np.unique(label_P)) == k:
            return label_P
    return f"a cluster stayed empty in all starts of {TRIES} seeds"


def starts(method: Method, n_init: int) -> int:
    """How many starts a method makes with one seed: ward, which has no randomness, one."""
    return {"ward": 1, "dtw_kmeans": min(n_init, DTW_STARTS)}.get(method, n_init)


def distances(method: Method, series_PTD: Values) -> Values:
    """Distances dist_PP between curves as the method sees them."""
    if method == "dtw_kmeans":
        return dtw.distances(series_PTD)
    if method == "kshape":
        dist_PP = np.clip(kshape.distances(series_PTD, series_PTD), 0, None)
    else:
        points = series_PTD.reshape(len(series_PTD), -1)
        dist_PP = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(dist_PP, 0)
    return np.asarray(dist_PP)


def _once(method: Method, series_PTD: Values, k: int, n_init: int, seed: int) -> NDArray[np.intp] | None:
    """Run the method with one seed; None when it failed."""
    points = series_PTD.reshape(len(series_PTD), -1)
    if method == "kshape":
        found = kshape.fit(series_PTD, k, n_init=n_init, seed=seed)
        return None if found is None else found[0]
    if method == "dtw_kmeans":
        return dtw.kmeans(series_PTD, k, n_init=starts(method, n_init), seed=seed)
    from sklearn.cluster import AgglomerativeClustering, KMeans
    from sklearn.exceptions import ConvergenceWarning

    if method == "ward":
        return np.asarray(AgglomerativeClustering(k, linkage="ward").fit_predict(points))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer clusters than k: `fit` counts them
        return np.asarray(KMeans(k, n_init=n_init, random_state=seed).fit_predict(points), dtype=np.intp)

"""The clustering methods behind one call, each either giving k clusters or saying why not.

Shape letters: P parts, T points of a curve, D datasets.
"""

import warnings

import numpy as np
from numpy.typing import NDArray

from rllc import dtw, kmedoids, kshape
from rllc.config import Method

Values = NDArray[np.float64]

TRIES = 3  # seeds tried before a method is said to fail
DTW_STARTS = 3  # at most: a start costs some hundred times one of k-means
SLOW: dict[Method, int] = {"dtw_kmeans": 20, "kshape": 20, "soft_kmedoids": 5}  # most draws of the chains
SLOWEST: dict[Method, int] = {"dtw_kmeans": 3, "soft_kmedoids": 3}  # most null curves: some hundred times the others
MEDOIDS: tuple[Method, ...] = ("kmedoids", "soft_kmedoids")  # those that need nothing but distances
AGAIN = 3  # fresh starts at most on curves that were drawn again
SAME = 1e-9  # curves closer than this, relative to the largest value, count as one


def fit(
    method: Method, series_PTD: Values, *, k: int, n_init: int, seed: int, dist_PP: Values | None = None
) -> NDArray[np.intp] | str:
    """Cluster curves into exactly k groups.

    Args:
        method: kmeans and ward see a curve as a point in T·D dimensions; kmedoids and dtw_kmeans (DTW within a band;
            medoids, or barycentre averaging), soft_kmedoids (soft-DTW) and kshape (which needs z-normalised series) as
            a series of D channels.
        series_PTD: the curves, finite.
        k: groups.
        n_init: starts of the seeded methods, of which the best is kept; dtw_kmeans takes at most DTW_STARTS.
        seed: of the starts; if a cluster stays empty in all of them, TRIES − 1 further seeds are tried.
        dist_PP: the method's own distances where they are known already; k-medoids needs nothing else.

    Returns:
        The labels, or the reason why there are no k groups; fewer than k are never returned.
    """
    assert np.isfinite(series_PTD).all(), "curves with holes cannot be clustered"
    points = series_PTD.reshape(len(series_PTD), -1)
    distinct = len(np.unique(np.round(points / (SAME * max(np.abs(points).max(), 1e-300))), axis=0))
    if distinct < k:
        return f"only {distinct} of {len(points)} curves differ"
    for attempt in range(TRIES):
        label_P = _once(method, series_PTD, k, n_init, seed + attempt, dist_PP)
        if label_P is not None and len(np.unique(label_P)) == k:
            return label_P
    return f"a cluster stayed empty in all starts of {TRIES} seeds"


def starts(method: Method, n_init: int) -> int:
    """How many starts a method makes with one seed: ward and k-medoids, which have no randomness, one."""
    fixed = {"ward": 1, "kmedoids": 1, "soft_kmedoids": 1, "dtw_kmeans": min(n_init, DTW_STARTS)}
    return fixed.get(method, n_init)


def again(
    method: Method, series_PTD: Values, near_P: NDArray[np.intp], *, n_init: int, seed: int,
    dist_PP: Values | None = None,
) -> NDArray[np.intp] | str:  # fmt: skip
    """Cluster curves that differ a little from those of which `near_P` are the labels, into as many groups.

    The methods that take long start from these groups; k-means starts from them too, and afresh with a seed of its own,
    and the better of both is kept; the others have no starts.
    """
    k = int(near_P.max()) + 1
    if method not in ("dtw_kmeans", "kshape"):
        fresh_P = fit(method, series_PTD, k=k, n_init=min(n_init, AGAIN), seed=seed, dist_PP=dist_PP)
        return fresh_P if method != "kmeans" or isinstance(fresh_P, str) else _better(series_PTD, fresh_P, near_P)
    label_P = (dtw if method == "dtw_kmeans" else kshape).refit(series_PTD, near_P)
    failed = label_P is None or len(np.unique(label_P)) < k
    return "a cluster became empty" if failed or label_P is None else label_P


def _better(series_PTD: Values, fresh_P: NDArray[np.intp], near_P: NDArray[np.intp]) -> NDArray[np.intp]:
    """Give the better of some labels of k-means and of those it finds from other groups, by the inertia."""
    from sklearn.cluster import KMeans

    points = series_PTD.reshape(len(series_PTD), -1)

    def means(label_P: NDArray[np.intp]) -> Values:
        return np.stack([points[label_P == label].mean(axis=0) for label in range(label_P.max() + 1)])

    model = KMeans(int(near_P.max()) + 1, init=means(near_P), n_init=1).fit(points)
    inertia = float(((points - means(fresh_P)[fresh_P]) ** 2).sum())
    return np.asarray(model.labels_, dtype=np.intp) if model.inertia_ < inertia else fresh_P


def distances(method: Method, series_PTD: Values) -> Values:
    """Distances dist_PP between curves as the method sees them."""
    if method in ("dtw_kmeans", "kmedoids"):
        return dtw.distances(series_PTD)
    if method == "soft_kmedoids":
        return dtw.soft_distances(series_PTD)
    if method != "kshape":
        return euclidean(series_PTD.reshape(len(series_PTD), -1))
    dist_PP = np.clip(kshape.distances(series_PTD, series_PTD), 0, None)
    np.fill_diagonal(dist_PP, 0)
    return np.asarray(dist_PP)


def euclidean(points_PF: Values) -> Values:
    """Distances dist_PP of points, in no more memory than they take."""
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(points_PF, points_PF))


def _once(
    method: Method, series_PTD: Values, k: int, n_init: int, seed: int, dist_PP: Values | None
) -> NDArray[np.intp] | None:
    """Run the method with one seed; None when it failed."""
    points = series_PTD.reshape(len(series_PTD), -1)
    if method == "kshape":
        found = kshape.fit(series_PTD, k, n_init=n_init, seed=seed)
        return None if found is None else found[0]
    if method == "dtw_kmeans":
        return dtw.kmeans(series_PTD, k, n_init=starts(method, n_init), seed=seed)
    if method in MEDOIDS:
        dist_PP = distances(method, series_PTD) if dist_PP is None else dist_PP
        return kmedoids.labels(dist_PP, kmedoids.fit(dist_PP, k))
    from sklearn.cluster import AgglomerativeClustering, KMeans
    from sklearn.exceptions import ConvergenceWarning

    if method == "ward":
        return np.asarray(AgglomerativeClustering(k, linkage="ward").fit_predict(points))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer clusters than k: `fit` counts them
        return np.asarray(KMeans(k, n_init=n_init, random_state=seed).fit_predict(points), dtype=np.intp)

"""Dynamic time warping within a band: distances by dtaidistance; soft ones, and k-means with barycentres, by tslearn.

Shape letters: P series, K clusters, T points, D channels.
"""

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

REFITS = 10  # iterations from a start that is nearly right
BARYCENTRE = 10  # iterations of a barycentre there


def band(points: int) -> int:
    """Half width of the Sakoe-Chiba band, in points: a tenth of the curve."""
    return max(1, points // 10)


def distances(series_PTD: Values) -> Values:
    """Distances dist_PP: the root of the sum of squared differences along the best path.

    dtaidistance is compiled ahead, several times faster than tslearn, and gives the same numbers; its window is the
    radius + 1. It takes as many threads as OMP_NUM_THREADS says.
    """
    from dtaidistance import dtw_ndim

    series_PTD = np.ascontiguousarray(series_PTD)
    dist_PP = dtw_ndim.distance_matrix_fast(series_PTD, window=band(series_PTD.shape[1]) + 1, parallel=True)
    np.fill_diagonal(dist_PP, 0)
    return np.asarray(dist_PP)


def soft_distances(series_PTD: Values) -> Values:
    """Soft-DTW divergences dist_PP within the band (Cuturi and Blondel, ICML 2017; Blondel and others, AISTATS 2021).

    soft(x, y) − (soft(x, x) + soft(y, y))/2, which is 0 for equal series, with γ a tenth of the mean squared deviation
    of a point, so that the scale of the curves does not matter. Hundreds of times slower than `distances`.
    """
    gamma = 0.1 * float(series_PTD.var(axis=0).sum(axis=1).mean())
    with _lean_tslearn():
        from tslearn.metrics import cdist_soft_dtw_normalized

        radius = band(series_PTD.shape[1])
        dist_PP = cdist_soft_dtw_normalized(series_PTD, gamma=gamma or 1.0, sakoe_chiba_radius=radius)
        return np.asarray(np.clip(dist_PP, 0, None))


def kmeans(series_PTD: Values, k: int, *, n_init: int, seed: int) -> NDArray[np.intp] | None:
    """Cluster series; None if a cluster became empty in every start, which tslearn tells by an infinite inertia."""
    return _barycentres(series_PTD, k, n_init=n_init, random_state=seed)


def refit(series_PTD: Values, label_P: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """Cluster series from the groups of similar ones, one start; None if a cluster became empty."""
    centre_KTD = np.stack([series_PTD[label_P == label].mean(axis=0) for label in range(label_P.max() + 1)])
    return _barycentres(
        series_PTD, len(centre_KTD), n_init=1, init=centre_KTD, max_iter=REFITS, max_iter_barycenter=BARYCENTRE,
        random_state=0,
    )  # fmt: skip


def _barycentres(series_PTD: Values, k: int, **options: Any) -> NDArray[np.intp] | None:
    """Run tslearn's k-means within the band; None if a cluster became empty."""
    with _lean_tslearn():
        from tslearn.clustering import TimeSeriesKMeans

        radius = {"sakoe_chiba_radius": band(series_PTD.shape[1])}
        model = TimeSeriesKMeans(k, metric="dtw", metric_params=radius, **options)
        model.fit(series_PTD)
    return np.asarray(model.labels_, dtype=np.intp) if np.isfinite(model.inertia_) else None


@contextlib.contextmanager
def _lean_tslearn() -> Iterator[None]:
    """Keep tslearn from importing torch (seconds) and from printing every array it is given (half of its time).

    It prints arrays only to look for the word torch in them; with `threshold=0` they are short.
    """
    sys.meta_path.insert(0, _NoTorch)
    try:
        with warnings.catch_warnings(), np.printoptions(threshold=0, edgeitems=1):
            warnings.filterwarnings("ignore", message="h5py not installed")
            yield
    finally:
        sys.meta_path.remove(_NoTorch)


class _NoTorch:
    """Finder that makes a first import of torch fail, as if it were not installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:  # noqa: ARG004
        """Refuse torch and leave every other module to the other finders."""
        if name == "torch":
            raise ModuleNotFoundError("torch is not needed here", name=name)

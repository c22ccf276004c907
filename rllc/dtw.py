"""Dynamic time warping within a band: distances, and k-means with barycentre averaging (DBA), both by tslearn.

Shape letters: P series, T points, D channels.
"""

import contextlib
import sys
import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def band(points: int) -> int:
    """Half width of the Sakoe-Chiba band, in points: a tenth of the curve."""
    return max(1, points // 10)


def distances(series_PTD: Values) -> Values:
    """Distances dist_PP: the root of the sum of squared differences along the best path."""
    with _lean_tslearn():
        from tslearn.metrics import cdist_dtw

        return np.asarray(cdist_dtw(series_PTD, sakoe_chiba_radius=band(series_PTD.shape[1])))


def kmeans(series_PTD: Values, k: int, *, n_init: int, seed: int) -> NDArray[np.intp] | None:
    """Cluster series; None if a cluster became empty in every start, which tslearn tells by an infinite inertia."""
    with _lean_tslearn():
        from tslearn.clustering import TimeSeriesKMeans

        radius = {"sakoe_chiba_radius": band(series_PTD.shape[1])}
        model = TimeSeriesKMeans(k, metric="dtw", metric_params=radius, n_init=n_init, random_state=seed)
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

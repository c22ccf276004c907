"""One method on one set of curves: every k, the silhouette, and the same on draws of the chains.

Shape letters: B draws, P parts, D datasets, T training steps.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rllc import config, methods, scaling, stability
from rllc.config import Method, Scaling
from rllc.scopes import Scope, tried

Values = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class Fit:
    """One clustering of one set of curves, and those of its draws."""

    labels: Index | str
    silhouette: float
    draw_BP: Index

    def indices(self) -> tuple[float, float]:
        """Silhouette and mean stability of the parts."""
        if isinstance(self.labels, str):
            return self.silhouette, math.nan
        return self.silhouette, stability.weighted(self.labels, stability.jaccard(self.labels, self.draw_BP))


def series(value_PDT: Values, error_PDT: Values, method: Method, how: Scaling) -> Values:
    """Scale curves for a method; k-shape sees every channel z-normalised, which undoes any scaling."""
    scaled_PDT = scaling.znormalise(value_PDT) if method == "kshape" else scaling.scale(value_PDT, error_PDT, how)
    return np.ascontiguousarray(scaled_PDT.transpose(0, 2, 1))


def fits(
    scope: Scope, value_PDT: Values, moved_BPDT: Values, way: tuple[Method, Scaling], options: config.Cluster
) -> list[Fit]:
    """Fit every k to some curves, with the silhouette in the method's own distance, and to their draws."""
    from sklearn.metrics import silhouette_score

    method, seeds = way[0], {"n_init": options.n_init, "seed": options.seed}
    series_PTD = series(value_PDT, scope.error_PDT, *way)
    dist_PP = methods.distances(method, series_PTD)
    found: list[tuple[Index | str, float]] = []
    for k in tried(options):
        labels = methods.fit(method, series_PTD, k=k, **seeds, dist_PP=dist_PP)
        defined = not isinstance(labels, str) and k < len(series_PTD)
        found.append((labels, float(silhouette_score(dist_PP, labels, metric="precomputed")) if defined else math.nan))
    drawn: list[list[Index]] = [[] for _ in found]
    for b, moved_PDT in enumerate(moved_BPDT, start=1):
        moved_PTD = series(value_PDT + moved_PDT, scope.error_PDT, *way)
        near_PP = methods.distances(method, moved_PTD) if method in methods.MEDOIDS else None
        for (labels, _), of_k in zip(found, drawn, strict=True):
            if not isinstance(labels, str):
                again = methods.again(method, moved_PTD, labels, n_init=options.n_init, seed=options.seed + b,
                                      dist_PP=near_PP)  # fmt: skip
                of_k += [] if isinstance(again, str) else [again]
    empty = np.empty((0, len(value_PDT)), dtype=np.intp)
    return [Fit(*one, np.array(of_k) if of_k else empty) for one, of_k in zip(found, drawn, strict=True)]

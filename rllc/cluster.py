"""Groups of parts whose curves look alike, for every method, scaling and number of groups.

Shape letters: N null draws, P parts, D datasets, T training steps.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rllc import config, methods, scaling
from rllc.config import Method, Scaling
from rllc.scopes import Scope, tried
from rllc.trajectories import natural

Values = NDArray[np.float64]

DTW_NULLS = 5  # at most: DTW k-means costs some hundred times the others


@dataclass(frozen=True)
class Labels:
    """One clustering of one scope.

    Attributes:
        scope: "L0", "L1", … or "all".
        method: how it was found.
        scaling: of the curves; k-shape gives the same labels for each.
        k: groups asked for.
        seed: of the first starts.
        parts: what is labelled.
        label_P: label of each part, 0 … k−1, the largest group first; None if the method failed.
        scores: silhouette, null_median, null_q95; NaN where undefined.
        reason: why it failed; empty if it did not.
    """

    scope: str
    method: Method
    scaling: Scaling
    k: int
    seed: int
    parts: tuple[str, ...]
    label_P: tuple[int, ...] | None
    scores: dict[str, float]
    reason: str = ""


@dataclass(frozen=True)
class Choice:
    """The main k of one scope and where it comes from: given, chosen, or first (no k of the primary has an index)."""

    scope: str
    k: int
    how: str


def group(scope: Scope, method: Method, how: Scaling, options: config.Cluster) -> list[Labels]:
    """Cluster one scope by one method and scaling into every k, and give each the silhouette and its null."""
    ks = tried(options)
    series_PTD = _series(scope.value_PDT, scope.error_PDT, method, how)
    fits = _fits(method, series_PTD, options)
    null_NK = np.array(
        [
            [index for _, index in _fits(method, _series(null_PDT, scope.error_PDT, method, how), options)]
            for null_PDT in scope.null_NPDT[: null_draws(method, options)]
        ]
    )
    found = []
    for k, (labels, index), null_N in zip(ks, fits, null_NK.T, strict=True):
        null_N = null_N[np.isfinite(null_N)]
        median, q95 = np.quantile(null_N, [0.5, 0.95]) if len(null_N) else (math.nan, math.nan)
        scores = {"silhouette": index, "null_median": float(median), "null_q95": float(q95)}
        failed = isinstance(labels, str)
        label_P = None if isinstance(labels, str) else canonical(labels, scope.parts)
        reason = f"failed: {labels}" if failed else ""
        found.append(Labels(scope.name, method, how, k, options.seed, scope.parts, label_P, scores, reason))
    return found


def null_draws(method: Method, options: config.Cluster) -> int:
    """How many null curves a method is run on."""
    return min(options.null_draws, DTW_NULLS) if method == "dtw_kmeans" else options.null_draws


def clusterings(scope: Scope, method: Method, options: config.Cluster) -> list[Labels]:
    """Cluster one scope by one method, for all scalings; k-shape, which is blind to scaling, is run once."""
    if method != "kshape":
        return [labels for how in options.scalings for labels in group(scope, method, how, options)]
    once = group(scope, method, options.scalings[0], options)
    return [dataclasses.replace(labels, scaling=how) for how in options.scalings for labels in once]


def choose(found: Sequence[Labels], options: config.Cluster) -> Choice:
    """Take the given k, or the one whose silhouette is furthest above its null median in the primary clustering."""
    scope = found[0].scope
    if options.k is not None:
        return Choice(scope, options.k, "given")
    primary = (options.primary.method, options.primary.scaling)
    gains = {
        labels.k: labels.scores["silhouette"] - labels.scores["null_median"]
        for labels in found
        if (labels.method, labels.scaling) == primary
    }
    gains = {k: gain for k, gain in gains.items() if math.isfinite(gain)}
    if not gains:
        return Choice(scope, tried(options)[0], "first")
    return Choice(scope, max(sorted(gains), key=lambda k: gains[k]), "chosen")


def canonical(label_P: NDArray[np.intp], parts: Sequence[str]) -> tuple[int, ...]:
    """Renumber groups by size, the largest first, and equal sizes by their first part in natural order."""
    inside: dict[int, list[str]] = {}
    for label, part in zip(label_P.tolist(), parts, strict=True):
        inside.setdefault(label, []).append(part)
    order = sorted(inside, key=lambda label: (-len(inside[label]), min(natural(part) for part in inside[label])))
    return tuple(order.index(label) for label in label_P.tolist())


def _series(value_PDT: Values, error_PDT: Values, method: Method, how: Scaling) -> Values:
    """Scale curves for a method; k-shape sees every channel z-normalised, which undoes any scaling."""
    scaled_PDT = scaling.znormalise(value_PDT) if method == "kshape" else scaling.scale(value_PDT, error_PDT, how)
    return np.ascontiguousarray(scaled_PDT.transpose(0, 2, 1))


def _fits(method: Method, series_PTD: Values, options: config.Cluster) -> list[tuple[NDArray[np.intp] | str, float]]:
    """Fit every k and score it by the silhouette in the method's own distance (NaN for failures and k = P)."""
    from sklearn.metrics import silhouette_score

    dist_PP = methods.distances(method, series_PTD)
    found: list[tuple[NDArray[np.intp] | str, float]] = []
    for k in tried(options):
        labels = methods.fit(method, series_PTD, k=k, n_init=options.n_init, seed=options.seed)
        defined = not isinstance(labels, str) and k < len(series_PTD)
        found.append((labels, float(silhouette_score(dist_PP, labels, metric="precomputed")) if defined else math.nan))
    return found

"""Groups of parts whose curves look alike, for every method, scaling and number of groups.

Shape letters: N null draws, B draws of the chains, P parts, D datasets, T training steps, K groups.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rllc import config, fits, methods, stability
from rllc.config import Method, Scaling
from rllc.scopes import Scope, tried
from rllc.trajectories import natural

Values = NDArray[np.float64]
Index = NDArray[np.intp]
Way = tuple[Method, tuple[Scaling, ...]]  # and the scalings that its labels are of

INDICES = ("silhouette", "jaccard")
REDRAWN = 4  # draws of the chains on each null curve


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
        scores: silhouette; jaccard, the mean over parts of the stability of their groups, and jaccard_least, that of
            the least stable group. For the first two the nulls, as silhouette_null_median and silhouette_null_q95 (of
            the stricter null) and silhouette_walks_median, …; NaN where undefined.
        reason: why it failed; empty if it did not.
        jaccard_K: stability of each group; NaN without draws.
        draw_BP: the labels of the draws of the chains, those that failed left out.
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
    jaccard_K: tuple[float, ...] = ()
    draw_BP: Index = field(default_factory=lambda: np.empty((0, 0), dtype=np.intp), compare=False)


@dataclass(frozen=True)
class Choice:
    """The main k of one scope and where it comes from.

    `how` is given, chosen (the largest gain over the null among the k whose groups are all to be trusted), unstable
    (the largest gain of all, since there is no such k), or first (no k of the primary has an index).
    """

    scope: str
    k: int
    how: str


def group(scope: Scope, method: Method, how: Scaling, options: config.Cluster) -> list[Labels]:
    """Cluster one scope by one method and scaling into every k, and give each index its nulls."""
    moved_BPDT = scope.draw_BPDT[: draws(method, options)] - scope.value_PDT
    found_K = fits.fits(scope, scope.value_PDT, moved_BPDT, (method, how), options)
    null_NKI: dict[str, Values] = {}
    for kind, null_NPDT in scope.null_NPDT.items():
        few_NPDT = null_NPDT[: null_draws(method, options)]
        few_NBPDT = [moved_BPDT[REDRAWN * n % max(len(moved_BPDT), 1) :][:REDRAWN] for n in range(len(few_NPDT))]
        null_NKI[kind] = np.array([
            [fit.indices() for fit in fits.fits(scope, null_PDT, few_BPDT, (method, how), options)]
            for null_PDT, few_BPDT in zip(few_NPDT, few_NBPDT, strict=True)
        ])  # fmt: skip
    found = []
    for place, (k, fit) in enumerate(zip(tried(options), found_K, strict=True)):
        scores = {"jaccard_least": math.nan}
        for i, (index, value) in enumerate(zip(INDICES, fit.indices(), strict=True)):
            scores |= {index: value, **_nulls(index, {kind: of[:, place, i] for kind, of in null_NKI.items()})}
        found.append(_labels(Labels(scope.name, method, how, k, options.seed, scope.parts, None, scores), fit))
    return found


def _labels(bare: Labels, fit: fits.Fit) -> Labels:
    """Fill in what a fit gave: labels with their stability, or the reason why there are none."""
    if isinstance(fit.labels, str):
        return dataclasses.replace(bare, reason=f"failed: {fit.labels}")
    label_P = canonical(fit.labels, bare.parts)
    jaccard_K = stability.jaccard(np.array(label_P), fit.draw_BP)
    scores = {**bare.scores, "jaccard_least": float(jaccard_K.min())}
    return dataclasses.replace(
        bare, label_P=label_P, scores=scores, jaccard_K=tuple(jaccard_K.tolist()), draw_BP=fit.draw_BP
    )


def null_draws(method: Method, options: config.Cluster) -> int:
    """How many null curves of each kind a method is run on."""
    return min(options.null_draws, methods.SLOWEST.get(method, options.null_draws))


def draws(method: Method, options: config.Cluster) -> int:
    """How many draws of the chains a method is run on."""
    return min(options.draws, methods.SLOW.get(method, options.draws))


def ways(options: config.Cluster) -> list[Way]:
    """Give what is to be run: each method with each scaling; k-shape, which is blind to scaling, once for all."""
    single = [(how,) for how in options.scalings]
    return [
        (method, hows)
        for method in options.methods
        for hows in ([tuple(options.scalings)] if method == "kshape" else single)
    ]


def clusterings(scope: Scope, way: Way, options: config.Cluster) -> list[Labels]:
    """Cluster one scope in one way: the labels for each of its scalings, which are alike."""
    method, hows = way
    once = group(scope, method, hows[0], options)
    return [dataclasses.replace(labels, scaling=how) for how in hows for labels in once]


def choose(found: Sequence[Labels], options: config.Cluster) -> Choice:
    """Take the given k, or one by stability and null gap in the primary clustering.

    Among the k all of whose groups have a Jaccard stability of `stability.TRUSTED` or more (all k, where no draws of
    the chains are known), it is the one whose silhouette is furthest above the median of its stricter null.
    """
    scope = found[0].scope
    if options.k is not None:
        return Choice(scope, options.k, "given")
    primary = (options.primary.method, options.primary.scaling)
    tables = {labels.k: labels.scores for labels in found if (labels.method, labels.scaling) == primary}
    gains = {k: scores["silhouette"] - scores["silhouette_null_median"] for k, scores in tables.items()}
    gains = {k: gain for k, gain in sorted(gains.items()) if math.isfinite(gain)}
    if not gains:
        return Choice(scope, tried(options)[0], "first")
    trusted = [k for k in gains if not tables[k]["jaccard_least"] < stability.TRUSTED]
    return Choice(scope, max(trusted or gains, key=lambda k: gains[k]), "chosen" if trusted else "unstable")


def consensus(found: Sequence[Labels], k: int) -> Values | None:
    """Share of clusterings into k groups in which two parts are together, share_PP; None where all failed.

    Draws (the clustering itself, where there are none) weigh alike within a scaling, scalings within a method, and
    methods alike: a method that is blind to scaling, or was given few draws, counts no more and no less.
    """
    of_method: dict[str, list[Values]] = {}
    for labels in found:
        if labels.k == k and labels.label_P is not None:
            label_BP = labels.draw_BP if len(labels.draw_BP) else np.array([labels.label_P])
            of_method.setdefault(labels.method, []).append(stability.together(label_BP))
    return np.mean([np.mean(shares, axis=0) for shares in of_method.values()], axis=0) if of_method else None


def canonical(label_P: NDArray[np.intp], parts: Sequence[str]) -> tuple[int, ...]:
    """Renumber groups by size, the largest first, and equal sizes by their first part in natural order."""
    inside: dict[int, list[str]] = {}
    for label, part in zip(label_P.tolist(), parts, strict=True):
        inside.setdefault(label, []).append(part)
    order = sorted(inside, key=lambda label: (-len(inside[label]), min(natural(part) for part in inside[label])))
    return tuple(order.index(label) for label in label_P.tolist())


def _nulls(index: str, null_of: dict[str, Values]) -> dict[str, float]:
    """Give median and 95 % quantile of an index on each null, and of the stricter null, the one with more."""
    found: dict[str, float] = {}
    for kind, null_N in null_of.items():
        known_N = null_N[np.isfinite(null_N)]
        pair = np.quantile(known_N, [0.5, 0.95]).tolist() if len(known_N) else [math.nan, math.nan]
        found |= {f"{index}_{kind}_median": pair[0], f"{index}_{kind}_q95": pair[1]}
    for what in ("median", "q95"):
        known = [found[f"{index}_{kind}_{what}"] for kind in null_of]
        found[f"{index}_null_{what}"] = max((x for x in known if math.isfinite(x)), default=math.nan)
    return found

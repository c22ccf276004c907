"""Which groups of one training run are which of another, and whether one run's groups foretell the other's.

Shape letters: P parts, K groups, D datasets, T points.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rllc import config, rand, scaling, trajectories
from rllc.cluster import Choice, Labels
from rllc.scopes import members
from rllc.trajectories import Trajectories

Values = NDArray[np.float64]
Cell = tuple[str, str]  # run, scope


@dataclass(frozen=True)
class Match:
    """A group of one run and the group of another that it is matched with.

    Attributes:
        scope: in which both are.
        runs: the two runs.
        groups: label in each.
        sizes: parts in each.
        distance: root mean square difference of their mean scaled curves, in units of the scaled curves.
    """

    scope: str
    runs: tuple[str, str]
    groups: tuple[int, int]
    sizes: tuple[int, int]
    distance: float


@dataclass(frozen=True)
class Transfer:
    """How well the groups of one run foretell those of another.

    `ari` compares the other run's own groups with those its parts get from the nearest mean curve of the first
    (Tibshirani and Walther, Journal of Computational and Graphical Statistics 14, 2005); `p` is the share of random
    arrangements that agree as well.
    """

    scope: str
    source: str
    target: str
    ari: float
    p: float


def between(
    curves: Sequence[Trajectories],
    labels: Mapping[Cell, list[Labels]],
    choices: Mapping[Cell, Choice],
    options: config.Cluster,
) -> tuple[list[Match], list[Transfer]]:
    """Match the groups of the primary clustering at each scope's main k between every two runs.

    Curves are compared on the first run's steps, even on the log-like axis if `logx`. Groups are paired so that the sum
    of squared distances is least (the Hungarian algorithm); of unequal numbers some stay alone. Runs that do not share
    their datasets are not compared.
    """
    matches: list[Match] = []
    transfers: list[Transfer] = []
    for one, other in itertools.combinations(curves, 2):
        if one.datasets != other.datasets:
            continue
        for scope in members(one.parts, per_layer=options.per_layer):
            found = [
                _primary(labels.get((curve.run, scope), []), choices, options, curve.run) for curve in (one, other)
            ]
            if found[0] is None or found[1] is None:
                continue
            pair = found[0], found[1]
            points = [_scaled(curve, labels_, one, options) for curve, labels_ in zip((one, other), pair, strict=True)]
            matches += _matches(scope, (one.run, other.run), pair, points)
            for source, target in ((0, 1), (1, 0)):
                ari, p = _transfer((pair[source], pair[target]), (points[source], points[target]), options.seed)
                transfers.append(Transfer(scope, (one, other)[source].run, (one, other)[target].run, ari, p))
    return matches, transfers


def _primary(
    found: Sequence[Labels], choices: Mapping[Cell, Choice], options: config.Cluster, run: str
) -> Labels | None:
    way = (options.primary.method, options.primary.scaling)
    for labels in found:
        if (labels.method, labels.scaling) == way and labels.k == choices[run, labels.scope].k:
            return labels if labels.label_P is not None else None
    return None


def _scaled(curve: Trajectories, labels: Labels, grid: Trajectories, options: config.Cluster) -> Values:
    """Scale the curves of some parts and move them to the points of another run's grid; a point in T·D dimensions."""
    inside = [curve.parts.index(part) for part in labels.parts]
    unit = trajectories.unit(grid.steps)
    at_T = unit * np.expm1(scaling.even(grid.steps)) if options.logx else np.asarray(grid.steps, dtype=np.float64)
    x_T, new_T = (np.log1p(np.asarray(steps, dtype=np.float64) / unit) for steps in (curve.steps, at_T))
    value_PDT = np.apply_along_axis(lambda value_T: np.interp(new_T, x_T, value_T), -1, curve.value_PDT[inside])
    return scaling.scale(value_PDT, curve.error_PDT[inside], options.primary.scaling).reshape(len(inside), -1)


def _means(points: Values, labels: Labels) -> Values:
    label_P = np.array(labels.label_P)
    return np.stack([points[label_P == group].mean(axis=0) for group in range(label_P.max() + 1)])


def _matches(scope: str, runs: tuple[str, str], pair: tuple[Labels, Labels], points: Sequence[Values]) -> list[Match]:
    from scipy.optimize import linear_sum_assignment

    one, other = (_means(x, labels) for x, labels in zip(points, pair, strict=True))
    square_KK = ((one[:, None] - other[None]) ** 2).mean(axis=2)
    size = [np.bincount(np.array(labels.label_P)) for labels in pair]
    return [
        Match(scope, runs, (int(i), int(j)), (int(size[0][i]), int(size[1][j])), math.sqrt(square_KK[i, j]))
        for i, j in zip(*linear_sum_assignment(square_KK), strict=True)
    ]


def _transfer(pair: tuple[Labels, Labels], points: tuple[Values, Values], seed: int) -> tuple[float, float]:
    """ARI of the target's own groups with those foretold by the source's mean curves, and its permutation p."""
    mean_KF = _means(points[0], pair[0])
    told_P = ((points[1][:, None] - mean_KF[None]) ** 2).sum(axis=2).argmin(axis=1)
    own_P = np.array(pair[1].label_P)
    if len(np.unique(told_P)) == 1 or len(np.unique(own_P)) == 1:
        return math.nan, math.nan
    ari = float(rand.index(own_P, told_P[None])[0])
    null = rand.chance(rand.sizes(own_P), rand.sizes(told_P), seed)
    return ari, rand.p_value(ari, [null], seed=seed)

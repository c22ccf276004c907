"""How well each metric alone tells the types of heads apart, on the same heads and steps.

Shape letters: N groupings, P parts, F features of a curve, J types, D datasets, T training steps, B noisy copies.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rllc import csv_tables, head_types, methods, rand, scaling, scopes, tables, trajectories
from rllc.config import Scaling
from rllc.mistake import Mistake
from rllc.trajectories import Trajectories

Values = NDArray[np.float64]
Types = NDArray[np.intp]

INDICES = ("silhouette", "ari", "nearest")
SCALINGS: tuple[Scaling, ...] = ("global", "standardize")  # level counts; shape alone counts
COPIES = 100  # of the curves with their errors drawn once more
PERMUTATIONS = 2000


@dataclass(frozen=True)
class Line:
    """One index of one metric.

    Attributes:
        scope: "all" heads, or those of one layer, "L0".
        index: "silhouette" of the types (−1 to 1), "ari" of Ward clusters, as many as there are types, with the types
            (chance 0, best 1), or "nearest", the share of heads that are nearest to the mean of their own type when
            that is taken without them (0 to 1; a head that is alone in its type is a miss).
        value: of the curves as they are.
        error: standard deviation over COPIES of the curves, each cell moved by its own error.
        heads_error: standard error over heads, by the jackknife.
        chance: mean when the types are dealt at random; p the share of such that come as high.
        defines: whether the types come from this very metric, which then proves nothing.
    """

    run: str
    scope: str
    metric: str
    scaling: Scaling
    index: str
    value: float
    error: float
    heads_error: float
    chance: float
    p: float
    heads: int
    types: int
    defines: bool


COLUMNS = tuple(field.name for field in dataclasses.fields(Line))


def run(sweep: Path, *, seed: int = 0) -> list[Line]:
    """Compare all metrics of a gathered sweep, and write clusters/separation.csv.

    Raises:
        Mistake: there is nothing gathered, or no head types, which the three attention scores give.
    """
    path = sweep / "estimates.parquet"
    if not path.is_file():
        raise Mistake(f"{path}: there is no such file; gather the sweep first.")
    types = head_types.types(head_types.last_scores(path))
    if not types:
        raise Mistake(
            f"grid.metrics: {path} has no types of heads to tell apart; measure {', '.join(head_types.SCORES)} too."
        )
    found = [line for curves in _curves(path) for line in lines(curves, types.get(curves.run, {}), seed=seed)]
    csv_tables.write(sweep / "clusters" / "separation.csv", COLUMNS, map(dataclasses.astuple, found))
    return found


def lines(curves: Trajectories, types: Mapping[str, str], *, seed: int) -> Iterator[Line]:
    """All indices of one metric of one run; none where fewer than two types are there."""
    typed = [part for part in curves.parts if part in types]
    layers = scopes.members(typed, per_layer=True) if typed else {}
    for scope, inside in {"all": typed, **layers}.items():
        kinds = sorted({types[part] for part in inside})
        if len(kinds) < 2 or len(inside) <= len(kinds):
            continue
        rows = [curves.parts.index(part) for part in inside]
        type_P = np.array([kinds.index(types[part]) for part in inside])
        for how in SCALINGS:
            yield from _lines(curves, scope, how, rows, type_P, np.random.default_rng(seed))


def _lines(
    curves: Trajectories, scope: str, how: Scaling, rows: Sequence[int], type_P: Types, rng: np.random.Generator
) -> Iterator[Line]:
    value_PDT, error_PDT = curves.value_PDT[rows], curves.error_PDT[rows]
    noise_BPDT = rng.standard_normal((COPIES, *value_PDT.shape)) * np.nan_to_num(error_PDT)

    def score(moved_PDT: Values, error_PDT: Values, type_NP: Types) -> Values:
        points = scaling.scale(scaling.resample(curves.steps, moved_PDT), error_PDT, how)
        return indices(points.reshape(len(points), -1), type_NP)

    dealt_NP = rng.permuted(np.tile(type_P, (PERMUTATIONS, 1)), axis=1)
    value, *dealt = score(value_PDT, error_PDT, np.vstack([type_P, dealt_NP]))
    noisy = np.array([score(value_PDT + noise_PDT, error_PDT, type_P[None])[0] for noise_PDT in noise_BPDT])
    less = np.array([score(np.delete(value_PDT, p, 0), np.delete(error_PDT, p, 0), np.delete(type_P, p)[None])[0]
                     for p in range(len(type_P))])  # fmt: skip
    over_heads = np.sqrt((len(type_P) - 1) * less.var(0))
    known = np.isfinite(error_PDT).all()
    for n, index in enumerate(INDICES):
        chance = np.array(dealt)[:, n]
        yield Line(
            curves.run, scope, curves.metric, how, index, float(value[n]),
            float(noisy[:, n].std(ddof=1)) if known else math.nan, float(over_heads[n]), float(chance.mean()),
            float((1 + (chance >= value[n] - 1e-12).sum()) / (1 + len(chance))),
            len(type_P), len(np.unique(type_P)), curves.metric in head_types.SCORES,
        )  # fmt: skip


def indices(points_PF: Values, type_NP: Types) -> Values:
    """INDICES of the same points under N groupings into the same number of types, (N, 3)."""
    member_NPJ = (type_NP[..., None] == np.arange(type_NP.max() + 1)).astype(np.float64)
    label_P = methods.fit("ward", points_PF[:, :, None], k=member_NPJ.shape[2], n_init=1, seed=0)
    ari_N = np.full(len(type_NP), np.nan) if isinstance(label_P, str) else rand.index(label_P, type_NP)
    return np.stack([silhouette(points_PF, member_NPJ), ari_N, nearest(points_PF, member_NPJ)], axis=1)


def silhouette(points_PF: Values, member_NPJ: Values) -> Values:
    """Mean over heads of (b − a)/max(a, b), a the mean distance to the others of its type, b to the nearest other type.

    0 for a head that is alone in its type (Rousseeuw 1987). Shape (N).
    """
    dist_PP = methods.euclidean(points_PF)
    size_NJ, own_NPJ = member_NPJ.sum(1), member_NPJ.astype(bool)
    sum_NPJ = dist_PP @ member_NPJ
    others_NP = (member_NPJ @ size_NJ[..., None])[..., 0] - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        within_NP = sum_NPJ.sum(2, where=own_NPJ) / others_NP
        nearest_NP = np.where(own_NPJ | (size_NJ == 0)[:, None], np.inf, sum_NPJ / size_NJ[:, None]).min(2)
        each_NP = (nearest_NP - within_NP) / np.maximum(nearest_NP, within_NP)
    return np.asarray(np.where(others_NP > 0, np.nan_to_num(each_NP), 0.0).mean(1))


def nearest(points_PF: Values, member_NPJ: Values) -> Values:
    """Share of heads nearest to the mean of their own type, taken without them; shape (N). A tie is a miss.

    ‖x − c‖² of a mean c of points comes from their inner products alone, so that no grouping moves a point.
    """
    inner_PP = points_PF @ points_PF.T
    count_NPJ = member_NPJ.sum(1)[:, None] - member_NPJ  # in each type, the head itself left out
    cross_NPJ = inner_PP @ member_NPJ - member_NPJ * np.diag(inner_PP)[:, None]
    square_NJ = np.einsum("npj,pq,nqj->nj", member_NPJ, inner_PP, member_NPJ, optimize=True)
    left_NPJ = square_NJ[:, None] - member_NPJ * (2 * cross_NPJ + np.diag(inner_PP)[:, None])
    with np.errstate(divide="ignore", invalid="ignore"):
        away_NPJ = np.where(count_NPJ > 0, left_NPJ / count_NPJ**2 - 2 * cross_NPJ / count_NPJ, np.inf)
    own_NP = away_NPJ.min(2, where=member_NPJ.astype(bool), initial=np.inf)
    other_NP = away_NPJ.min(2, where=~member_NPJ.astype(bool), initial=np.inf)
    return np.asarray((own_NP < other_NP).mean(1))


def describe(found: Sequence[Line]) -> str:
    """The lines over all heads as a table for a terminal: value ± noise ± heads (chance), a row for each metric."""
    shown: dict[tuple[str, str, str], dict[str, Line]] = {}
    for line in found:
        if line.scope == "all":
            shown.setdefault((line.run, line.metric, line.scaling), {})[line.index] = line
    head = f"{'run':16}{'metric':20}{'scaling':13}{''.join(f'{index:36}' for index in INDICES)}".rstrip()
    rows = []
    for (name, metric, how), of in sorted(shown.items(), key=lambda item: (item[0][0], item[0][2], item[0][1])):
        mark = "*" if next(iter(of.values())).defines else ""
        rows.append(
            f"{name:16}{metric + mark:20}{how:13}{''.join(f'{_cell(of[index]):36}' for index in INDICES)}".rstrip()
        )
    if not rows:
        return "nothing to compare: the heads are all of one type, or as many types as heads"
    note = "value ± error of the measurement ± error over heads (chance, p); * the types come from these"
    return "\n".join([head, *rows, note])


def _cell(line: Line) -> str:
    return f"{line.value:5.2f} ±{line.error:.2f} ±{line.heads_error:.2f} ({line.chance:.2f}, {line.p:.3f})"


def _curves(path: Path) -> Iterator[Trajectories]:
    """The curves of each metric that is measured of heads, and of no other parts, in order of their names."""
    parts: dict[str, set[str]] = {}
    for row in tables.read(path):
        parts.setdefault(row.metric, set()).add(row.part)
    for metric in sorted(parts):
        if any(scopes.HEAD.fullmatch(part) for part in parts[metric]):
            yield from trajectories.read_table(path, metric=metric)

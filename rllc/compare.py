"""How well clusterings agree with the types of heads and with each other, for one run and over all.

Shape letters: P parts.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rllc import config, rand
from rllc.cluster import Choice, Labels
from rllc.rand import Null
from rllc.scopes import tried

Cell = tuple[str, str]  # run, scope


@dataclass(frozen=True)
class Agreement:
    """Agreement of one clustering with the types; NaN, with a reason, where it is undefined."""

    ari: float
    ami: float
    p: float
    reason: str = ""


@dataclass(frozen=True)
class Agreed:
    """One line of agreement.csv: a clustering of one scope, of the mean over scopes, or of all runs."""

    run: str
    scope: str
    method: str
    scaling: str
    k: str
    agreement: Agreement
    primary: bool


def agree(labels: Labels, types: Mapping[str, str], *, seed: int) -> tuple[Agreement, Null | None]:
    """Compare one clustering with the types of its parts by ARI, AMI and a permutation test of the ARI.

    p is the share of arrangements of the types over the parts whose ARI is as large: exact where all are enumerated,
    else (1 + #)/(1 + n).
    """
    missing = sum(part not in types for part in labels.parts)
    if labels.label_P is None:
        return undefined(labels.reason), None
    if missing:
        return undefined(f"{missing} of {len(labels.parts)} parts have no type"), None
    kinds = sorted(set(types.values()))
    type_P = np.array([kinds.index(types[part]) for part in labels.parts])
    label_P = np.array(labels.label_P)
    for what, of_P in (("all parts are of one type", type_P), ("all parts are in one group", label_P)):
        if len(np.unique(of_P)) == 1:
            return undefined(what), None
    ari = float(rand.index(label_P, type_P[None])[0])
    if not math.isfinite(ari):
        return undefined("every part is a group and a type of its own"), None
    from sklearn.metrics import adjusted_mutual_info_score

    null = rand.chance(rand.sizes(label_P), rand.sizes(type_P), seed)
    return Agreement(
        ari, float(adjusted_mutual_info_score(type_P, label_P)), rand.p_value(ari, [null], seed=seed)
    ), null


def undefined(reason: str) -> Agreement:
    """Give an agreement that has no value."""
    return Agreement(math.nan, math.nan, math.nan, reason)


def mean(found: Mapping[str, tuple[Agreement, Null | None]], *, seed: int) -> Agreement:
    """Average the agreement over scopes or runs; those without one are left out and named.

    The types are permuted within each scope of each run, independently.
    """
    kept = {name: (agreement, null) for name, (agreement, null) in found.items() if null is not None}
    left = ", ".join(name for name in found if name not in kept)
    if not kept:
        return undefined(f"undefined in {left}")
    ari, ami = (float(np.mean([getattr(one, name) for one, _ in kept.values()])) for name in ("ari", "ami"))
    p = rand.p_value(ari, [null for _, null in kept.values() if null is not None], seed=seed)
    return Agreement(ari, ami, p, f"without {left}" if left else "")


def agreements(
    labels: Mapping[Cell, list[Labels]],
    choices: Mapping[Cell, Choice],
    types: Mapping[str, Mapping[str, str]],
    options: config.Cluster,
) -> list[Agreed]:
    """Compare with the types: every clustering of every scope, the mean over scopes, and all runs together.

    If the main k differs between scopes, means are also taken over each scope's own main k, under k "main".
    """
    single: dict[tuple[Cell, tuple[str, str, str]], tuple[Agreement, Null | None]] = {}
    for cell, found in labels.items():
        for one in found:
            compared = agree(one, types.get(cell[0], {}), seed=options.seed)
            single[cell, (one.method, one.scaling, str(one.k))] = compared
            if one.k == choices[cell].k:
                single[cell, (one.method, one.scaling, "main")] = compared
    primary = (options.primary.method, options.primary.scaling)
    lines = []
    for (name, scope), cells in _pools(list(labels)).items():
        mains = {str(choices[cell].k) for cell in cells}
        headline = mains.pop() if len(mains) == 1 else "main"
        ks = [str(k) for k in tried(options)] + ["main"] * (headline == "main")
        for method, scaling, k in itertools.product(options.methods, options.scalings, ks):
            of_cell = {f"{cell[0]} {cell[1]}": single[cell, (method, scaling, k)] for cell in cells}
            agreement = next(iter(of_cell.values()))[0] if len(cells) == 1 else mean(of_cell, seed=options.seed)
            flag = (method, scaling) == primary and k == headline
            lines.append(Agreed(name, scope, method, scaling, k, agreement, flag))
    return lines


def _pools(cells: Sequence[Cell]) -> dict[Cell, list[Cell]]:
    """Say which cells each line averages: one, the scopes of a run ("mean"), and the same over all runs ("all")."""
    runs, names = dict.fromkeys(run for run, _ in cells), dict.fromkeys(scope for _, scope in cells)
    pools = {}
    for run_ in runs:
        inside = [cell for cell in cells if cell[0] == run_]
        pools.update({cell: [cell] for cell in inside})
        if len(inside) > 1:
            pools[run_, "mean"] = inside
    if len(runs) > 1:
        pools.update({("all", scope): [cell for cell in cells if cell[1] == scope] for scope in names})
        if len(names) > 1:
            pools["all", "mean"] = list(cells)
    return pools


def between(cell: Cell, found: Sequence[Labels], k: int) -> list[tuple[str, str, int, str, str, float]]:
    """Compare each pair of clusterings of one scope at its main k by the adjusted Rand index."""
    lines = []
    for one, other in itertools.combinations([labels for labels in found if labels.k == k], 2):
        if one.label_P is not None and other.label_P is not None:
            ari = float(rand.index(np.array(one.label_P), np.array([other.label_P]))[0])
            lines.append((*cell, k, f"{one.method}/{one.scaling}", f"{other.method}/{other.scaling}", ari))
    return lines

"""What the clustering stage found, and its tables.

Shape letters: P parts.
"""

import dataclasses
import importlib.metadata
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rllc import bootstrap, cluster, compare, config, csv_tables, dtw, head_types, methods, stability
from rllc.cluster import Choice, Labels
from rllc.compare import Agreed, Cell
from rllc.csv_tables import Line
from rllc.head_types import Scores
from rllc.matching import Match, Transfer
from rllc.trajectories import Trajectories

COLUMNS = {
    "labels": ("run", "scope", "method", "scaling", "k", "seed", "part", "label"),
    "scores": (
        *("run", "scope", "method", "scaling", "k", "score", "value", "null_median", "null_q95"),
        *("walks_median", "walks_q95", "phases_median", "phases_q95"),
    ),
    "stability": ("run", "scope", "method", "scaling", "k", "label", "size", "jaccard", "reading", "draws"),
    "consensus": ("run", "scope", "k", "a", "b", "share"),
    "support": ("run", "scope", "k", "part", "group", "support", "rival", "rival_support"),
    "matches": ("scope", "run_a", "run_b", "group_a", "group_b", "size_a", "size_b", "distance"),
    "transfer": ("scope", "source", "target", "ari", "p"),
    "types": ("run", "part", "type", *head_types.SCORES),
    "agreement": ("run", "scope", "method", "scaling", "k", "ari", "ami", "p", "primary", "reason"),
    "between": ("run", "scope", "k", "a", "b", "ari"),
}

SHARED = 1000  # parts of a scope up to which the table of pairs is written


@dataclass(frozen=True)
class Summary:
    """What `run` found and wrote.

    Attributes:
        folder: where the tables are.
        choices: main k by (run, scope), and whether it was given or chosen.
        labels: every clustering by (run, scope).
        agreed: all lines of agreement.csv; those with `primary` are the headline; empty without head types.
        filled: interpolated cells by run.
        left_out: parts by run that were not clustered, being no heads where heads are.
        matches: groups of the primary clustering of every two runs that belong together.
        transfers: how well the groups of one run foretell those of another.
    """

    folder: Path
    choices: dict[Cell, Choice]
    labels: dict[Cell, list[Labels]]
    agreed: list[Agreed]
    filled: dict[str, tuple[str, ...]]
    left_out: dict[str, tuple[str, ...]]
    matches: list[Match]
    transfers: list[Transfer]

    @property
    def failed(self) -> list[str]:
        """Clusterings without labels, each with its reason."""
        return [
            f"{run}/{scope}/{one.method}/{one.scaling}/{one.k} {one.reason}"
            for (run, scope), found in self.labels.items()
            for one in found
            if one.label_P is None
        ]


def write(summary: Summary, scores: Scores) -> None:
    """Write the tables; one that does not apply is removed."""
    every = [((*cell, one.method, one.scaling, one.k), one) for cell, found in summary.labels.items() for one in found]
    lines: dict[str, Iterable[Line]] = {
        "labels": (
            (*way, one.seed, part, label)
            for way, one in every
            if one.label_P is not None
            for part, label in zip(one.parts, one.label_P, strict=True)
        ),
        "scores": (
            (*way, index, one.scores[index], *(one.scores[f"{index}_{null}"] for null in COLUMNS["scores"][7:]))
            for way, one in every
            for index in cluster.INDICES
        ),
        "stability": (
            (*way, label, one.label_P.count(label), jaccard, stability.reading(jaccard), len(one.draw_BP))
            for way, one in every
            if one.label_P is not None
            for label, jaccard in enumerate(one.jaccard_K)
        ),
        **_consensus(summary),
        "matches": ((m.scope, *m.runs, *m.groups, *m.sizes, m.distance) for m in summary.matches),
        "transfer": ((t.scope, t.source, t.target, t.ari, t.p) for t in summary.transfers),
        "types": (
            (name, part, head_types.head_type(part, of_part), *(of_part[score] for score in head_types.SCORES))
            for name, parts in scores.items()
            for part, of_part in parts.items()
        ),
        "agreement": (
            (one.run, one.scope, one.method, one.scaling, one.k, *_numbers(one), one.primary, one.agreement.reason)
            for one in summary.agreed
        ),
        "between": (
            line
            for cell, found in summary.labels.items()
            for line in compare.between(cell, found, summary.choices[cell].k)
        ),
    }
    for name, of_table in lines.items():
        path = summary.folder / f"{name}.csv"
        if name == "types" and not scores:
            path.unlink(missing_ok=True)
        else:
            csv_tables.write(path, COLUMNS[name], of_table)


def _consensus(summary: Summary) -> dict[str, list[Line]]:
    """Make the tables of pairs that go together over all clusterings, and of how sure each part's group is."""
    pairs: list[Line] = []
    supports: list[Line] = []
    for cell, found in summary.labels.items():
        k, parts = summary.choices[cell].k, found[0].parts
        share_PP = cluster.consensus(found, k)
        if share_PP is None:
            continue
        if len(parts) <= SHARED:
            pairs += [
                (*cell, k, parts[a], parts[b], float(share_PP[a, b]))
                for a, b in np.argwhere(np.tri(len(parts), k=-1).T)
            ]
        label_P = np.array(cluster.canonical(stability.consensus(share_PP, k), parts))
        own_P, rival_P, other_P = stability.support(share_PP, label_P)
        supports += [
            (*cell, k, part, int(label_P[p]), float(own_P[p]), int(other_P[p]), float(rival_P[p]))
            for p, part in enumerate(parts)
        ]
    return {"consensus": pairs, "support": supports}


def _numbers(one: Agreed) -> tuple[float, float, float]:
    return one.agreement.ari, one.agreement.ami, one.agreement.p


def settings(summary: Summary, curves: Sequence[Trajectories], options: config.Cluster) -> str:
    """Describe as JSON how the tables came about."""
    found = {
        "metric": curves[0].metric,
        "options": dataclasses.asdict(options),
        "k": [
            {"run": name, "scope": scope, "k": choice.k, "how": choice.how}
            for (name, scope), choice in summary.choices.items()
        ],
        "band": {curve.run: dtw.band(len(curve.steps)) for curve in curves},
        "null_draws": {method: cluster.null_draws(method, options) for method in options.methods},
        "draws": {method: cluster.draws(method, options) for method in options.methods},
        "draws_from": {curve.run: bootstrap.how(curve) for curve in curves},
        "starts": {method: methods.starts(method, options.n_init) for method in options.methods},
        "types": {"majority": head_types.MAJORITY, "prefix": head_types.PREFIX},
        "filled": summary.filled,
        "left_out": summary.left_out,
        "failed": summary.failed,
        "versions": {
            name: importlib.metadata.version(name) for name in ("numpy", "scikit-learn", "tslearn", "dtaidistance")
        },
    }
    return json.dumps(found, indent=2) + "\n"

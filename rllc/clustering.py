"""The offline stage: read curves, cluster them in every way asked for, compare, and write the tables."""

import csv
import dataclasses
import importlib.metadata
import io
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rllc import atomic, cluster, compare, config, dtw, head_types, methods, scopes, trajectories
from rllc.cluster import Choice, Labels
from rllc.compare import Agreed, Cell
from rllc.head_types import Scores
from rllc.trajectories import Trajectories

COLUMNS = {
    "labels": ("run", "scope", "method", "scaling", "k", "seed", "part", "label"),
    "scores": ("run", "scope", "method", "scaling", "k", "score", "value", "null_median", "null_q95"),
    "types": ("run", "part", "type", *head_types.SCORES),
    "agreement": ("run", "scope", "method", "scaling", "k", "ari", "ami", "p", "primary", "reason"),
    "between": ("run", "scope", "k", "a", "b", "ari"),
}

Progress = Callable[[int, int], object]
Line = Sequence[str | int | float | bool]


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
    """

    folder: Path
    choices: dict[Cell, Choice]
    labels: dict[Cell, list[Labels]]
    agreed: list[Agreed]
    filled: dict[str, tuple[str, ...]]
    left_out: dict[str, tuple[str, ...]]

    @property
    def failed(self) -> list[str]:
        """Clusterings without labels, each with its reason."""
        return [
            f"{run}/{scope}/{one.method}/{one.scaling}/{one.k} {one.reason}"
            for (run, scope), found in self.labels.items()
            for one in found
            if one.label_P is None
        ]


def run(
    folder: Path,
    options: config.Cluster,
    *,
    table: Path | None = None,
    progress: Progress | None = None,
) -> Summary | None:
    """Cluster the curves of a sweep, or of a table of one's own, and write `folder`/clusters.

    Args:
        folder: the sweep; or any folder, when the curves come from `table`.
        options: what is asked for.
        table: long table of curves (CSV or Parquet); default the sweep's estimates.
        progress: called with the number of clusterings done and their total.

    Returns:
        What was found; None, and nothing written, where no scope has enough curves for any k of the range.

    Raises:
        Mistake: the curves are incomplete, or the options do not fit them; nothing was written.
    """
    from threadpoolctl import threadpool_limits

    if table is None:
        curves = trajectories.read(folder, fill=options.fill)
    else:
        curves = trajectories.read_table(table, fill=options.fill)
    for curve in curves:
        fitting = scopes.fitting(options, curve.parts)
        if fitting is None:
            return None
        scopes.check(options := fitting, curve.parts)
    scores = head_types.last_scores(table or folder / "estimates.parquet")
    with threadpool_limits(1):  # curves are small: more threads only wait for each other
        labels = _label(curves, options, progress)
    choices = {cell: cluster.choose(found, options) for cell, found in labels.items()}
    summary = Summary(
        folder=folder / "clusters",
        choices=choices,
        labels=labels,
        agreed=compare.agreements(labels, choices, head_types.types(scores), options) if scores else [],
        filled={curve.run: curve.filled for curve in curves},
        left_out={curve.run: scopes.left_out(curve.parts) for curve in curves},
    )
    _write(summary, scores)
    atomic.write_text(summary.folder / "config.json", _settings(summary, curves, options))
    return summary


def _label(
    curves: Sequence[Trajectories], options: config.Cluster, progress: Progress | None
) -> dict[Cell, list[Labels]]:
    """Cluster every scope of every run by every method."""
    cells = [(curve.run, scope) for curve in curves for scope in scopes.cut(curve, options)]
    labels: dict[Cell, list[Labels]] = {(name, scope.name): [] for name, scope in cells}
    work = list(itertools.product(cells, options.methods))
    for done, ((name, scope), method) in enumerate(work, start=1):
        labels[name, scope.name] += cluster.clusterings(scope, method, options)
        if progress:
            progress(done, len(work))
    return labels


def _write(summary: Summary, scores: Scores) -> None:
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
            (*way, "silhouette", *(one.scores[name] for name in ("silhouette", "null_median", "null_q95")))
            for way, one in every
        ),
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
            atomic.write_text(path, _csv(COLUMNS[name], of_table))


def _numbers(one: Agreed) -> tuple[float, float, float]:
    return one.agreement.ari, one.agreement.ami, one.agreement.p


def _csv(columns: Sequence[str], lines: Iterable[Line]) -> str:
    """Format a table; numbers with six digits, so that rounding in the last bits does not show."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for line in lines:
        writer.writerow(
            [
                f"{field:.6g}" if isinstance(field, float) else str(field).lower() if isinstance(field, bool) else field
                for field in line
            ]
        )
    return text.getvalue()


def _settings(summary: Summary, curves: Sequence[Trajectories], options: config.Cluster) -> str:
    """Describe as JSON how the tables came about."""
    settings = {
        "metric": curves[0].metric,
        "options": dataclasses.asdict(options),
        "k": [
            {"run": name, "scope": scope, "k": choice.k, "how": choice.how}
            for (name, scope), choice in summary.choices.items()
        ],
        "band": {curve.run: dtw.band(len(curve.steps)) for curve in curves},
        "null_draws": {method: cluster.null_draws(method, options) for method in options.methods},
        "starts": {method: methods.starts(method, options.n_init) for method in options.methods},
        "types": {"majority": head_types.MAJORITY, "prefix": head_types.PREFIX},
        "filled": summary.filled,
        "left_out": summary.left_out,
        "failed": summary.failed,
        "versions": {name: importlib.metadata.version(name) for name in ("numpy", "scikit-learn", "tslearn")},
    }
    return json.dumps(settings, indent=2) + "\n"

"""The offline stage: read curves, cluster them in every way asked for, compare, and write the tables."""

import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rllc import atomic, cluster, compare, config, findings, head_types, matching, scopes, trajectories
from rllc.cluster import Labels
from rllc.compare import Cell
from rllc.findings import Summary
from rllc.trajectories import Trajectories

Progress = Callable[[int, int], object]


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
        if sentence := scopes.too_many(options, curve.parts):
            print(f"rllc: {sentence}", file=sys.stderr)
        scopes.check(options := fitting, curve.parts)
    scores = head_types.last_scores(table or folder / "estimates.parquet")
    with threadpool_limits(1):  # curves are small: more threads only wait for each other
        labels = _label(curves, options, progress)
    choices = {cell: cluster.choose(found, options) for cell, found in labels.items()}
    matches, transfers = matching.between(curves, labels, choices, options)
    summary = Summary(
        folder=folder / "clusters",
        choices=choices,
        labels=labels,
        agreed=compare.agreements(labels, choices, head_types.types(scores), options) if scores else [],
        filled={curve.run: curve.filled for curve in curves},
        left_out={curve.run: scopes.left_out(curve.parts) for curve in curves},
        matches=matches,
        transfers=transfers,
    )
    findings.write(summary, scores)
    atomic.write_text(summary.folder / "config.json", findings.settings(summary, curves, options))
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

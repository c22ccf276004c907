"""The offline stage: read curves, cluster them in every way asked for, compare, and write the tables."""

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rllc import atomic, cluster, compare, config, findings, head_types, matching, scopes, trajectories
from rllc.cluster import Labels, Way
from rllc.compare import Cell
from rllc.findings import Summary
from rllc.scopes import Scope
from rllc.trajectories import Trajectories

Progress = Callable[[int, int], object]

ALONE = 5.0  # seconds of work before other processes are started, which takes some itself
LARGE = 2000  # parts of a scope


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
    """Cluster every scope of every run in every way."""
    cut = {(curve.run, scope.name): scope for curve in curves for scope in scopes.cut(curve, options)}
    work = list(itertools.product(cut, cluster.ways(options)))
    labels: dict[Cell, list[Labels]] = {cell: [] for cell in cut}
    found = _each([(cut[cell], way, options) for cell, way in work])
    for done, ((cell, _), of_way) in enumerate(zip(work, found, strict=True), start=1):
        labels[cell] += of_way
        if progress:
            progress(done, len(work))
    return labels


def _each(work: Sequence[tuple[Scope, Way, config.Cluster]]) -> Iterator[list[Labels]]:
    """Give what each piece of work finds, in order: after ALONE seconds from one process for each core.

    Scopes of more than LARGE parts are left to one process, since their distances fill the memory.
    """
    import joblib

    began, rest = time.monotonic(), list(work)
    many = joblib.cpu_count() if all(len(scope.parts) <= LARGE for scope, *_ in work) else 1
    while rest and (min(many, len(rest)) == 1 or time.monotonic() - began < ALONE):
        yield _one(*rest.pop(0))
    if rest:
        pool = joblib.Parallel(
            min(many, len(rest)), return_as="generator", initializer=_follow, initargs=(os.getpid(),)
        )
        yield from pool(joblib.delayed(_one)(*piece) for piece in rest)


def _follow(parent: int) -> None:
    """End this process when the one that started it is gone, which joblib's do not always."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _one(scope: Scope, way: Way, options: config.Cluster) -> list[Labels]:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # curves are small: more threads only wait for each other
        return cluster.clusterings(scope, way, options)

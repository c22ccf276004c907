"""What is made from a sweep's results: tables, clusters, report and W&B runs, each when its inputs have changed."""

import hashlib
import json
import sys
from collections.abc import Iterable, Set
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from rllc import atomic, closing, gather, plan, progress, store, track, version
from rllc.config import Config
from rllc.mistake import Mistake


def folder(config: Config) -> Path:
    """Where the sweep's files are; those of a foreign table lie under the name of its file."""
    return Path(config.root, "sweeps", config.name if config.input is None else Path(config.input).stem).resolve()


def merge_sweeps(config: Config) -> None:
    """Unite the sweeps of `merge` into this one.

    Raises:
        Mistake: one of them has no plan, or they are of different configurations.
    """
    from rllc import merge

    sweep = folder(config)
    sources = [(Path(name) if "/" in name else sweep.parent / name).resolve() for name in config.merge or []]
    with atomic.owner(sweep, "name"):
        print(f"merge: {merge.merge(sweep, sources)}")


def gather_results(config: Config) -> int:
    """Collect the results that are there into Parquet files; 1 where some are missing or damaged."""
    sweep = folder(config)
    cells = plan.required(sweep)
    planned = {cell.task.key for cell in cells}
    present = store.keys(sweep) & planned
    if _fresh(sweep / "gathered.txt", _stamp(present, sweep)):
        print("gather: nothing to do")
    else:
        store.tidy(sweep)
        with progress.bar("gather") as show:
            present = gather.gather(sweep, cells, progress=show)
        atomic.write_text(sweep / "gathered.txt", _stamp(present, sweep))
    if len(present) < len(cells):
        print(f"rllc: {len(cells) - len(present)} of {len(cells)} results are missing.", file=sys.stderr)
        return 1
    return 0


def _stamp(keys: Set[str], sweep: Path) -> str:
    """What the gathered files were made from, and their content: one that was damaged or deleted is made again."""
    files = [sweep / name for name in gather.FILES]
    return _digest([*sorted(keys), version.code(), *(_content(file) if file.exists() else "" for file in files)])


def cluster(config: Config) -> None:
    """Cluster the gathered curves, or those of `input`, and say how well the clusters agree with what the heads do.

    Raises:
        Mistake: the curves have holes or diverged cells, which are named.
    """
    from rllc import clustering

    sweep = folder(config)
    table = _table(config)
    curves = table or _gathered(sweep)
    stamp = _digest([_content(curves), repr(config.cluster), version.code()])
    if _fresh(sweep / "clusters" / "stamp.txt", stamp):
        print("cluster: nothing to do")
        return
    with progress.bar("cluster") as show:
        if clustering.run(sweep, config.cluster, table=table, progress=show) is None:
            print("cluster: no k of cluster.k_range is below the number of parts of each scope, nothing to group")
    atomic.write_text(sweep / "clusters" / "stamp.txt", stamp)


def draw(config: Config, seconds: dict[str, float] | None = None) -> None:
    """Draw the figures and the page from the gathered files, or from `input`, and the clusters."""
    from rllc import report

    sweep = folder(config)
    table = _table(config)
    derived = [*sweep.glob("*.parquet"), *sweep.glob("*.yaml"), sweep / "env.json", *(sweep / "clusters").glob("*.*")]
    parts = [_content(file) for file in sorted([table or _gathered(sweep), *derived]) if file.exists()]
    stamp = _digest([*parts, repr(config.report), version.code()])
    if _fresh(sweep / "report" / "stamp.txt", stamp):
        print("report: nothing to do")
        return
    with progress.bar("report") as show:
        report.draw(sweep, config.report, seconds=seconds, table=table, progress=show)
    atomic.write_text(sweep / "report" / "stamp.txt", stamp)


def track_again(config: Config) -> int:
    """Make the W&B runs of a sweep anew from its gathered files; the exit code, 1 where W&B failed.

    Raises:
        Mistake: W&B is not installed, or nothing was gathered.
    """
    from pyarrow import parquet

    sweep = folder(config)
    estimates = parquet.read_table(_gathered(sweep), columns=list(gather.LINE)).to_pylist()
    losses = sweep / "training.parquet"
    with track.Collector(sweep, config.track, {}, again=True) as collector:
        for run, lines in groupby(parquet.read_table(losses).to_pylist() if losses.exists() else [], itemgetter("run")):
            collector.trained(run, lines)
        collector.update(estimates)
        return int(not collector.finish(lambda: closing.overview(sweep)))


def _table(config: Config) -> Path | None:
    """The foreign table, where one is given."""
    if config.input is None:
        return None
    if not Path(config.input).is_file():
        raise Mistake(f"input: {config.input!r} is not a file; give a .csv or .parquet table of curves.")
    return Path(config.input)


def _gathered(sweep: Path) -> Path:
    """The estimates, once they are seen to be whole."""
    import pyarrow
    from pyarrow import parquet

    file = sweep / "estimates.parquet"
    if not file.exists():
        raise Mistake(f"name: {file} does not exist; run `rllc sweep`, or `rllc gather` where the results are there.")
    try:
        parquet.read_table(file)
    except (pyarrow.ArrowException, OSError) as error:
        raise Mistake(f"name: {file} is damaged; `rllc gather` makes it again.") from error
    return file


def _content(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()


def _fresh(stamp: Path, digest: str) -> bool:
    """Whether the files beside this stamp were made from the same inputs by the same code."""
    return stamp.exists() and stamp.read_text() == digest

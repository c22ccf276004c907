"""The gathered numbers of a sweep: rows of the tables, and curves in which a hole stays a hole.

Shape letters: P parts, D datasets, T training steps, C chains, S points of a trace.
"""

import dataclasses
import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rllc import intervals, tables
from rllc.head_types import SCORES
from rllc.mistake import Mistake, words
from rllc.scopes import HEAD
from rllc.task import SCHEMA
from rllc.trajectories import natural

Values = NDArray[np.float64]
Row = dict[str, Any]  # a row of estimates.parquet

STATS = (
    "freedom", "stein", "localised", "bias_step", "bias_step_most", "bias_burn_in", "bias_removed", "rhat", "ess",
    "drift", "drift_p",
)  # fmt: skip
TRACES = 4096  # rows of traces.parquet that are read at once
DEFAULTS: Row = {
    "key": "", "run": "run", "metric": "value", "seed": 0, "value": math.nan, "error": math.nan,
    "health": "ok", "reason": "", **dict.fromkeys(STATS, math.nan), "chains": (), "sampler": "null", "code": "",
}  # fmt: skip


@dataclass(frozen=True)
class Curves:
    """One metric of one run.

    Attributes:
        run: name of the training run.
        metric: what was measured.
        parts: names of the parts, in natural order.
        datasets: names of the token distributions, sorted.
        steps: training steps, ascending.
        value_PDT: the curves; NaN where there is no number. Seeds of a cell are averaged.
        error_PDT: standard errors; NaN where unknown.
        half_PDT: half width of the 95 % interval, Student's t where the number of chains is known.
    """

    run: str
    metric: str
    parts: tuple[str, ...]
    datasets: tuple[str, ...]
    steps: tuple[int, ...]
    value_PDT: Values
    error_PDT: Values
    half_PDT: Values

    def layers(self) -> dict[str, tuple[int, ...]]:
        """Positions of the heads by layer, as {"L0": (0, 1), …}; parts that are no heads are left out."""
        found: dict[str, list[int]] = defaultdict(list)
        for p, part in enumerate(self.parts):
            if head := HEAD.match(part):
                found[f"L{head[1]}"].append(p)
        return {name: tuple(found[name]) for name in sorted(found, key=natural)}

    def averaged(self) -> Values:
        """The curves averaged over the datasets that have a number; NaN where none has."""
        known_PDT = np.isfinite(self.value_PDT)
        count_PT = np.where(known_PDT.any(axis=1), known_PDT.sum(axis=1), np.nan)
        return np.asarray(np.where(known_PDT, self.value_PDT, 0).sum(axis=1) / count_PT)

    def others(self) -> tuple[int, ...]:
        """Positions of the parts that are no heads."""
        return tuple(p for p, part in enumerate(self.parts) if not HEAD.match(part))


def read(sweep: Path, table: Path | None = None) -> list[Row]:
    """Read the estimates of a sweep, or a long table of curves made elsewhere.

    Raises:
        Mistake: the file is missing, empty, or of another schema.
    """
    if table is not None:
        return [{**DEFAULTS, **dataclasses.asdict(row)} for row in tables.read(table)]
    path = sweep / "estimates.parquet"
    if not path.is_file():
        raise Mistake(f"{path}: there is no such file; gather the sweep first.")
    rows, schema = _parquet(path, [*tables.NEEDED, *DEFAULTS])
    if schema not in (None, SCHEMA):
        raise Mistake(f"{path}: its schema is {schema}, but this version reads {SCHEMA}; gather the sweep again.")
    if not rows:
        raise Mistake(f"{path}: it holds no estimates; run the sweep first.")
    missing = [name for name in tables.NEEDED if name not in rows[0]]
    if missing:
        raise Mistake(f"{path}: column {', '.join(missing)} is missing; gather the sweep again.")
    return [{**DEFAULTS, **{name: field for name, field in row.items() if field is not None}} for row in rows]


def training(sweep: Path) -> dict[str, tuple[Values, Values]]:
    """Read step and mean loss (nats per token) of each run; empty when nothing was recorded."""
    path = sweep / "training.parquet"
    rows = _parquet(path, ("run", "step", "loss"))[0] if path.is_file() else []
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row.get("loss") is not None:
            found[row["run"]].append((row["step"], row["loss"]))
    runs = {run: np.array(sorted(found[run]), dtype=np.float64).T for run in sorted(found, key=natural)}
    return {run: (step_T, loss_T) for run, (step_T, loss_T) in runs.items()}


def traces(sweep: Path, keys: Collection[str]) -> dict[str, list[tuple[Values, Values]]]:
    """Read step and excess loss ℓ(w_t) − ℓ(w*) (nats), thinned, of every chain of some estimates."""
    path = sweep / "traces.parquet"
    if not path.is_file() or not keys:
        return {}
    rows, _ = _parquet(path, ("key", "chain", "step", "excess"), keys)
    found: dict[str, list[tuple[Values, Values]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: int(row["chain"])):
        found[row["key"]].append((np.asarray(row["step"], np.float64), np.asarray(row["excess"], np.float64)))
    return dict(found)


def every_trace(sweep: Path) -> Iterator[tuple[str, Values, Values]]:
    """Give key, step and excess loss of every chain, in the order of the file, a few thousand in memory at once."""
    from pyarrow import parquet

    path = sweep / "traces.parquet"
    if not path.is_file():
        return
    with parquet.ParquetFile(path) as file:
        if {"key", "step", "excess"} <= set(file.schema_arrow.names):
            for batch in file.iter_batches(TRACES, columns=["key", "step", "excess"]):
                for key, step, excess in zip(*(batch.column(name) for name in ("key", "step", "excess")), strict=True):
                    yield str(key), np.asarray(step.values, np.float64), np.asarray(excess.values, np.float64)


def main_metric(rows: Sequence[Row]) -> str | None:
    """Say which metric the curves show: llc if it is there, else the only one that is no attention score."""
    found = {row["metric"] for row in rows}
    others = found - set(SCORES)
    return "llc" if "llc" in found else others.pop() if len(others) == 1 else None


def sampler(row: Row) -> dict[str, Any]:
    """Decode the options of the chains; empty where there were none."""
    return dict(json.loads(row["sampler"]) or {})


def curves(rows: Iterable[Row], metric: str | None) -> dict[str, Curves]:
    """Arrange one metric as the curves of each run, runs in natural order."""
    of_run: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["metric"] == metric:
            of_run[row["run"]].append(row)
    return {run: _curves(of_run[run]) for run in sorted(of_run, key=natural)}


def _curves(rows: list[Row]) -> Curves:
    parts = tuple(sorted({row["part"] for row in rows}, key=natural))
    datasets = tuple(sorted({row["dataset"] for row in rows}))
    steps = tuple(sorted({row["step"] for row in rows}))
    value_PDT = np.full((len(parts), len(datasets), len(steps)), np.nan)
    error_PDT, half_PDT = value_PDT.copy(), value_PDT.copy()
    cells: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in rows:
        cells[row["part"], row["dataset"], row["step"]].append(row)
    for (part, dataset, step), seeds in cells.items():
        where = parts.index(part), datasets.index(dataset), steps.index(step)
        value_PDT[where] = sum(row["value"] for row in seeds) / len(seeds)
        error_PDT[where] = math.hypot(*(row["error"] for row in seeds)) / len(seeds)
        half_PDT[where] = half_width(seeds)
    value_PDT[~np.isfinite(value_PDT)] = np.nan
    return Curves(rows[0]["run"], rows[0]["metric"], parts, datasets, steps, value_PDT, error_PDT, half_PDT)


def half_width(seeds: Sequence[Row]) -> float:
    """Half width of the 95 % interval of the mean over seeds: Student's t, the normal's where no chains are known.

    Seeds of a cell have one sampler and so one variance: their degrees of freedom add up.
    """
    error = math.hypot(*(row["error"] for row in seeds)) / len(seeds)
    known = sum(row["freedom"] if row["freedom"] > 0 else max(len(row["chains"]) - 1, 0) for row in seeds)
    return error * intervals.quantile(known or math.inf)


def _parquet(path: Path, wanted: Iterable[str], keys: Collection[str] = ()) -> tuple[list[Row], int | None]:
    """Read some columns as rows, and the schema version that the file carries."""
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
        names = [name for name in dict.fromkeys(wanted) if name in schema.names]
        table = parquet.read_table(path, columns=names, filters=[("key", "in", sorted(keys))] if keys else None)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise Mistake(f"{path}: not a Parquet file ({words(error)}).") from error
    version = (schema.metadata or {}).get(b"rllc.schema")
    return table.to_pylist() if names else [], None if version is None else int(version)

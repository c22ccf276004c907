"""All results of a sweep as a few Parquet files: what clustering, report and tracking need, offline.

estimates.parquet has a row for each result, training.parquet the training losses, traces.parquet the loss traces,
thinned to TRACE_DRAWS points a chain. Each file carries its schema version. Results are read one after the other and
written ROWS rows at a time, so that the memory does not grow with their number.
"""

import dataclasses
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rllc import atomic, status, store
from rllc.models.parts import place
from rllc.plan import Cell
from rllc.task import SCHEMA, Estimate, Task

FILES = ("estimates.parquet", "training.parquet", "traces.parquet")
TRACE_DRAWS = 256
ROWS = 2048  # of a row group
_TEXT = ("key", "run", "part", "dataset", "metric", "health", "reason", "sampler", "loss", "weights_hash", "rows_hash",
         "code")  # fmt: skip
_WHOLE = ("step", "layer", "head", "seed")
STATS = (
    "freedom", "weights", "stein", "localised", "away", "moved", "curvature", "stiff", "bias_step", "bias_step_most",
    "bias_burn_in", "bias_removed", "accept", "rhat", "rhat_limit", "ess", "drift", "drift_p", "settling", "settling_p",
    "geweke", "stationary", "floor", "largest", "above_0.01", "above_0.1",
)  # fmt: skip


LINE = (
    "key", "run", "step", "part", "layer", "head", "dataset", "metric", "seed", "value", "error", "health", "reason",
)  # fmt: skip
COLUMNS = (
    *LINE, "low", "high", "chains", *STATS, "sampler", "loss", "weights_hash", "rows_hash", "seconds", "code",
)  # fmt: skip


def row(estimate: Estimate) -> dict[str, Any]:
    """One estimate as a row of estimates.parquet."""
    task = estimate.task
    low, high = estimate.interval()
    return {
        **line(task, store.summary(estimate)), "low": low, "high": high, "chains": estimate.chains_C.tolist(),
        **{name: estimate.stats.get(name, math.nan) for name in STATS},
        "sampler": json.dumps(task.sampler and dataclasses.asdict(task.sampler)),
        "loss": task.loss, "weights_hash": task.weights, "rows_hash": task.rows,
        "seconds": estimate.seconds, "code": estimate.code,
    }  # fmt: skip


def line(task: Task, entry: dict[str, Any]) -> dict[str, Any]:
    """One index line of the store as the columns LINE of a row, for what watches a sweep live."""
    layer, head = place(task.part)
    numbers = {name: math.nan if entry[name] is None else entry[name] for name in ("value", "error")}
    return {
        "key": task.key, "run": task.run, "step": task.step, "part": task.part, "layer": layer, "head": head,
        "dataset": task.dataset, "metric": task.metric, "seed": task.seed, **numbers,
        "health": entry["health"], "reason": entry["reason"],
    }  # fmt: skip


def gather(sweep: Path, plan: Iterable[Cell], *, progress: Callable[[int, int], None] = lambda *_: None) -> set[str]:
    """Write the Parquet files from the results that are there; the keys of those that they hold.

    Training losses are those of metrics.jsonl in the folders of the planned runs. A damaged result is moved aside,
    named on standard error, and counts as missing.

    Raises:
        ValueError: a result is of another schema.
    """
    plan, present = list(plan), store.keys(sweep)
    found = [cell for cell in plan if cell.task.key in present]
    gathered: set[str] = set()
    with _table(sweep / "estimates.parquet", _estimates()) as add, _table(sweep / "traces.parquet", _traces()) as trace:
        for place, cell in enumerate(found, 1):
            try:
                estimate = store.get(sweep, cell.task.key)
            except store.Damaged as error:
                _set_aside(sweep, cell, error)
                continue
            gathered.add(cell.task.key)
            add([row(estimate)])
            trace(_trace(estimate))
            progress(place, len(found))
    _training(sweep, plan)
    return gathered


def trainings(sweep: Path, plan: Iterable[Cell]) -> dict[str, Path]:
    """The metrics file of each run of a plan, where its checkpoints come from a training of this project."""
    files = {cell.task.run: (sweep.parent.parent / cell.checkpoint).parent.parent / "metrics.jsonl" for cell in plan}
    return {run: file for run, file in files.items() if file.exists()}


def _set_aside(sweep: Path, cell: Cell, error: Exception) -> None:
    there = store.set_aside(sweep, cell.task.key)
    what = f"{status.name(cell)}: {error}; moved to {there}"
    print(f"rllc: {what}; the next `rllc sweep` measures it again.", file=sys.stderr)


def _trace(estimate: Estimate) -> list[dict[str, Any]]:
    """ℓ(w_t) − ℓ(w*) of a result's chains at about TRACE_DRAWS evenly spaced steps."""
    chains, steps = estimate.loss_CS.shape
    if not steps:
        return []
    kept = np.unique(np.linspace(0, steps - 1, min(steps, TRACE_DRAWS)).round().astype(int))
    return [
        {"key": estimate.task.key, "chain": chain, "step": kept, "excess": estimate.loss_CS[chain, kept]}
        for chain in range(chains)
    ]


def _training(sweep: Path, plan: Iterable[Cell]) -> None:
    import pyarrow as pa

    lines = {run: store.parse(file.read_bytes().splitlines()) for run, file in trainings(sweep, plan).items()}
    losses = [{"run": run, **line} for run, of_run in lines.items() for line in of_run]
    with _table(sweep / "training.parquet", pa.Table.from_pylist(losses).schema) as add:
        add(losses)


def _estimates() -> Any:
    """The columns of estimates.parquet, in the order of `row`."""
    import pyarrow as pa

    types = dict.fromkeys(_TEXT, pa.string()) | dict.fromkeys(_WHOLE, pa.int64()) | {"chains": pa.list_(pa.float64())}
    return pa.schema([(name, types.get(name, pa.float64())) for name in COLUMNS])


def _traces() -> Any:
    import pyarrow as pa

    lists = {"step": pa.list_(pa.int64()), "excess": pa.list_(pa.float32())}
    return pa.schema({"key": pa.string(), "chain": pa.int64(), **lists})


@contextmanager
def _table(path: Path, schema: Any) -> Iterator[Callable[[list[dict[str, Any]]], None]]:
    """Yield a function that adds rows to a Parquet file, which is there, whole, when the block succeeds."""
    import pyarrow as pa
    from pyarrow import parquet

    held: list[dict[str, Any]] = []
    schema = schema.with_metadata({"rllc.schema": str(SCHEMA)})
    with atomic.replace(path) as file, parquet.ParquetWriter(file, schema) as writer:

        def write() -> None:
            writer.write_table(pa.Table.from_pylist(held, schema))
            held.clear()

        def add(rows: list[dict[str, Any]]) -> None:
            held.extend(rows)
            if len(held) >= ROWS:
                write()

        yield add
        if held:
            write()

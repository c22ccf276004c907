"""All results of a sweep as a few Parquet files: what clustering, report and tracking need, offline.

estimates.parquet has a row for each result, training.parquet the training losses, traces.parquet the loss traces,
thinned to TRACE_DRAWS points a chain. Each file carries its schema version.
"""

import dataclasses
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from rllc import atomic, store
from rllc.models.parts import place
from rllc.plan import Cell
from rllc.task import SCHEMA, Estimate, Task

FILES = ("estimates.parquet", "training.parquet", "traces.parquet")
TRACE_DRAWS = 256
STATS = (
    "freedom", "weights", "stein", "localised", "away", "moved", "curvature", "stiff", "bias_step", "bias_step_most",
    "bias_burn_in", "bias_removed", "accept", "rhat", "rhat_limit", "ess", "drift", "drift_p", "settling", "settling_p",
    "geweke", "stationary",
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
    """One index line of the store as the first columns of a row, for what watches a sweep live."""
    layer, head = place(task.part)
    numbers = {name: math.nan if entry[name] is None else entry[name] for name in ("value", "error")}
    return {
        "key": task.key, "run": task.run, "step": task.step, "part": task.part, "layer": layer, "head": head,
        "dataset": task.dataset, "metric": task.metric, "seed": task.seed, **numbers,
        "health": entry["health"], "reason": entry["reason"],
    }  # fmt: skip


def gather(sweep: Path, plan: Iterable[Cell]) -> int:
    """Write the Parquet files from the results that are there; how many results are missing.

    Training losses are those of metrics.jsonl in the folders of the planned runs.
    """
    plan, present = list(plan), store.keys(sweep)
    found = [cell.task.key for cell in plan if cell.task.key in present]
    rows, traces = [], []
    for key in found:
        estimate = store.get(sweep, key)
        rows.append(row(estimate))
        traces += _trace(estimate)
    runs = {cell.task.run: (sweep.parent.parent / cell.checkpoint).parent.parent for cell in plan}
    losses = [line for name, folder in runs.items() for line in _losses(name, folder)]
    for name, table in zip(FILES, (rows, losses, traces), strict=True):
        _table(sweep / name, table)
    return len(plan) - len(found)


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


def _losses(run: str, folder: Path) -> list[dict[str, Any]]:
    file = folder / "metrics.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [{"run": run, **json.loads(line)} for line in lines]


def _table(path: Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.Table.from_pylist(rows).replace_schema_metadata({"rllc.schema": str(SCHEMA)})
    with atomic.replace(path) as file:
        parquet.write_table(table, file)

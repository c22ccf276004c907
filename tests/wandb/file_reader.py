"""Reads the local files of W&B runs back: what a run was told, in order."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record

from rllc.track import journal


@dataclass(frozen=True)
class Run:
    """One W&B run as its file has it; `metrics` is the x axis of each defined metric."""

    id: str
    name: str
    group: str
    job: str
    host: str
    tags: list[str]
    config: dict[str, Any]
    metrics: dict[str, str]
    history: list[dict[str, Any]]
    artifacts: list[str]
    ended: bool


def read(path: Path) -> Run:
    """Read one `.wandb` file."""
    records = [Record.FromString(record) for record in journal.records(path)]
    kinds: dict[str, list[Any]] = {}
    for record in records:
        kind = record.WhichOneof("record_type")
        kinds.setdefault(kind, []).append(getattr(record, kind))
    run = kinds["run"][0]
    return Run(
        id=run.run_id,
        name=run.display_name,
        group=run.run_group,
        job=run.job_type,
        host=run.host,
        tags=list(run.tags),
        config={item.key: json.loads(item.value_json) for item in run.config.update if item.key != "_wandb"},
        metrics={metric.name or metric.glob_name: metric.step_metric for metric in kinds.get("metric", [])},
        history=[_row(row) for row in kinds.get("history", [])],
        artifacts=[artifact.name for artifact in kinds.get("artifact", [])],
        ended="exit" in kinds,
    )


def read_all(sweep: Path) -> list[Run]:
    """Read every run under a sweep that got as far as the disk."""
    return [read(path) for path in sorted((sweep / "wandb").glob("*run-*/*.wandb")) if any(journal.records(path))]


def _row(history: Any) -> dict[str, Any]:
    row = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in history.item}
    return {name: value for name, value in row.items() if not name.startswith("_")}

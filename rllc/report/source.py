"""Everything the report shows of a sweep, read once."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rllc.head_types import SCORES
from rllc.mistake import unknown
from rllc.report import estimates, grouping
from rllc.report.estimates import Curves, Row, Values
from rllc.report.grouping import Groups


@dataclass(frozen=True)
class Source:
    """One sweep.

    Attributes:
        sweep: its folder.
        table: the long table that was read instead of the sweep's estimates.
        rows: all estimates.
        metric: what the curves show; None when only attention scores were measured.
        curves: of that metric, by run.
        scores: attention scores that were measured, by name and run.
        training: step and loss (nats per token), by run.
        groups: what clustering found; None before it.
        traced: the part whose loss traces are drawn, by run.
        config: the resolved configuration as YAML; empty when there is none.
        environment: code and package versions at the time of measuring.
    """

    sweep: Path
    table: Path | None
    rows: list[Row]
    metric: str | None
    curves: dict[str, Curves]
    scores: dict[str, dict[str, Curves]]
    training: dict[str, tuple[Values, Values]]
    groups: Groups | None
    traced: dict[str, str]
    config: str
    environment: dict[str, Any]

    @property
    def symbol(self) -> str:
        """Axis label of the curves."""
        return "λ̂ (nats)" if self.metric == "llc" else str(self.metric)

    def runs(self) -> list[str]:
        """Names of the runs with curves or scores, in natural order."""
        return list(dict.fromkeys([*self.curves, *(run for of_run in self.scores.values() for run in of_run)]))

    def types(self, run: str) -> dict[str, str]:
        """Type of each head; empty where unknown."""
        return self.groups.types.get(run, {}) if self.groups else {}


def read(sweep: Path, *, traces: str | None = None, table: Path | None = None) -> Source:
    """Read the gathered files of a sweep; training losses, traces and clusters may be absent.

    Raises:
        Mistake: there are no estimates, they have another schema, or `traces` names a part that was not measured.
    """
    rows = estimates.read(sweep, table)
    metric = estimates.main_metric(rows)
    curves = estimates.curves(rows, metric)
    scores = {name: found for name in SCORES if name != metric and (found := estimates.curves(rows, name))}
    parts = sorted({part for curve in curves.values() for part in curve.parts})
    if traces is not None and traces not in parts:
        raise unknown("report.traces", traces, parts)
    environment = _text(sweep / "env.json")
    return Source(
        sweep=sweep,
        table=table,
        rows=rows,
        metric=metric,
        curves=curves,
        scores=scores,
        training=estimates.training(sweep),
        groups=grouping.read(sweep / "clusters"),
        traced={run: _traced(curve, traces) for run, curve in curves.items()},
        config=_text(sweep / "config.yaml"),
        environment=json.loads(environment) if environment else {},
    )


def _traced(curve: Curves, wanted: str | None) -> str:
    if wanted is not None:
        return wanted
    heads = [p for inside in curve.layers().values() for p in inside]
    return curve.parts[heads[-1]] if heads else curve.parts[-1]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""

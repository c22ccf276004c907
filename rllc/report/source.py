"""Everything the report shows of a sweep, read once."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rllc import stages, trajectories
from rllc.head_types import SCORES
from rllc.measured import WHOLE
from rllc.mistake import Mistake
from rllc.report import asked, contexts, estimates, grouping
from rllc.report.estimates import Curves, Row, Values
from rllc.report.grouping import Groups
from rllc.stages import Boundary
from rllc.trajectories import Trajectories


@dataclass(frozen=True)
class Stages:
    """The ends of a run's stages, ascending, and where they come from: by hand, or λ̂ of * or the loss."""

    origin: str
    boundaries: tuple[Boundary, ...]


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
        others: every other metric that was measured, by name and run.
        training: step and loss (nats per token), by run.
        groups: what clustering found; None before it.
        clustered: the curves of each run as clustering reads them; empty where that cannot be done any more.
        trouble: why it cannot, in a sentence; else empty.
        contexts: by run and part, the text where the loss rose most (see `contexts.read`).
        traced: the part whose loss traces are drawn, by run.
        stages: what the stages of each run were found from, and where they end.
        config: the resolved configuration as YAML; empty when there is none.
        environment: code and package versions at the time of measuring.
    """

    sweep: Path
    table: Path | None
    rows: list[Row]
    metric: str | None
    curves: dict[str, Curves]
    scores: dict[str, dict[str, Curves]]
    others: dict[str, dict[str, Curves]]
    training: dict[str, tuple[Values, Values]]
    groups: Groups | None
    clustered: dict[str, Trajectories]
    trouble: str
    contexts: dict[str, dict[str, list[str]]]
    traced: dict[str, str]
    stages: dict[str, Stages]
    config: str
    environment: dict[str, Any]

    @property
    def symbol(self) -> str:
        """Axis label of the curves."""
        return "λ̂ (nats)" if self.metric == "llc" else str(self.metric)

    def runs(self) -> list[str]:
        """Names of the runs with curves or scores, in natural order."""
        return list(dict.fromkeys([*self.curves, *(run for of_run in self.scores.values() for run in of_run)]))

    def spans(self, run: str) -> list[tuple[float, float]]:
        """Every second stage of a run, to be shaded."""
        ends = [boundary.step for boundary in self.stages[run].boundaries] if run in self.stages else []
        return stages.spans(ends, self.curves[run].steps)[1::2] if ends else []

    def shading(self, run: str) -> str:
        """What a caption says of the shaded stages; empty where there are none."""
        return " Upright grey bands: every second stage of the training." if self.spans(run) else ""

    def types(self, run: str) -> dict[str, str]:
        """Type of each head; empty where unknown."""
        return self.groups.types.get(run, {}) if self.groups else {}


def read(
    sweep: Path, *, traces: str | None = None, table: Path | None = None, by_hand: Sequence[int] | None = None
) -> Source:
    """Read the gathered files of a sweep; training losses, traces and clusters may be absent.

    Raises:
        Mistake: there are no estimates, they have another schema, `traces` names a part that was not measured, or a
            stage given by hand ends outside of the training.
    """
    rows = estimates.read(sweep, table)
    metric = estimates.main_metric(rows)
    curves = estimates.curves(rows, metric)
    scores = {name: found for name in SCORES if name != metric and (found := estimates.curves(rows, name))}
    shown = {metric, *SCORES}
    others = {name: estimates.curves(rows, name) for name in sorted({row["metric"] for row in rows} - shown)}
    parts = sorted({part for curve in curves.values() for part in curve.parts})
    asked.traces(traces, parts)
    asked.stages(by_hand, {run: curve.steps for run, curve in curves.items()})
    losses = estimates.training(sweep)
    environment, groups = _text(sweep / "env.json"), grouping.read(sweep / "clusters")
    clustered, trouble = _clustered(table or sweep / "estimates.parquet", metric, groups)
    return Source(
        sweep=sweep,
        table=table,
        rows=rows,
        metric=metric,
        curves=curves,
        scores=scores,
        others=others,
        training=losses,
        groups=groups,
        clustered=clustered,
        trouble=trouble,
        contexts=contexts.read(sweep),
        traced={run: _traced(curve, traces) for run, curve in curves.items()},
        stages={run: _stages(curve, losses.get(run), by_hand) for run, curve in curves.items()},
        config=_text(sweep / "config.yaml"),
        environment=json.loads(environment) if environment else {},
    )


def _clustered(path: Path, metric: str | None, groups: Groups | None) -> tuple[dict[str, Trajectories], str]:
    """Read the curves as clustering does, or say why the estimates no longer give those that were clustered."""
    if groups is None or metric is None:
        return {}, ""
    changed = "The figures of groups are left out, since the curves have changed"
    try:
        found = trajectories.read_table(path, metric=metric, fill=groups.settings["options"]["fill"])
    except Mistake as mistake:
        return {}, f"{changed}: {mistake}"
    curves = {curve.run: curve for curve in found}
    for (run, *_), labels in groups.labels.items():
        if gone := [part for part in labels if run in curves and part not in curves[run].parts]:
            return {}, f"{changed}: {gone[0]} is no longer there in run {run}."
    return curves, ""


def _traced(curve: Curves, wanted: str | None) -> str:
    if wanted is not None:
        return wanted
    heads = [p for inside in curve.layers().values() for p in inside]
    return curve.parts[heads[-1]] if heads else curve.parts[-1]


def _stages(curve: Curves, losses: tuple[Values, Values] | None, by_hand: Sequence[int] | None) -> Stages:
    """Take the ends of stages given by hand, or find them from λ̂ of the whole model, else from the training loss."""
    if by_hand is not None:
        return Stages("by hand", tuple(Boundary(step, step, step, 1.0) for step in sorted(by_hand)))
    if curve.metric == "llc" and WHOLE in curve.parts:
        value_DT, error_DT = (of[curve.parts.index(WHOLE)] for of in (curve.value_PDT, curve.error_PDT))
        error_T = np.sqrt((error_DT**2).sum(axis=0)) / len(error_DT)
        return Stages("from λ̂ of *", tuple(stages.find(curve.steps, value_DT.mean(axis=0), error_T)))
    if losses is None or len(losses[0]) < stages.FEWEST:
        return Stages("nothing", ())
    return Stages("from the training loss", tuple(stages.find(*stages.binned(losses[0].tolist(), losses[1]))))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""

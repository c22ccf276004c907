"""The interactive page: one HTML file with all curves and groups in it, which needs nothing else.

Shape letters: P parts, D datasets, T training steps, S points of a trace.
"""

import base64
import hashlib
import html
import importlib.resources
import itertools
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rllc.report import estimates, looks
from rllc.report.estimates import Curves, Values
from rllc.report.grouping import Groups
from rllc.report.sheet import CSS
from rllc.report.source import Source

TRACES = 3_000_000  # bytes of all loss traces
POINTS = 64  # of a trace at most
FEWEST = 8  # points of a trace; where there is no room for so many, traces are left out
DASHES = {"-": "none", "--": "7 3", "-.": "7 2 1.5 2", ":": "1.5 2.5"}
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{}'"


def page(source: Source) -> str:
    """Write the page; empty where there are no curves."""
    if not source.curves:
        return ""
    script = _asset("explore.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _asset("explore.html").format(
        name=html.escape(source.sweep.resolve().name),
        policy=POLICY.format(digest),
        css=CSS + _asset("explore.css"),
        data=json.dumps(content(source), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c"),
        script=script,
    )


def content(source: Source) -> dict[str, Any]:
    """Give everything the page holds, as it stands in its JSON."""
    groups = source.groups
    return {
        "metric": source.metric,
        "symbol": source.symbol,
        "primary": groups.primary if groups else ("", ""),
        "looks": [_look(looks.look(n)) for n in range(len(looks.COLOURS) * len(looks.LINES))],
        "colours": len(looks.COLOURS),
        "plain": _look(looks.PLAIN),
        "types": looks.TYPES,
        "runs": [_run(source, run) for run in source.curves],
    }


def _run(source: Source, run: str) -> dict[str, Any]:
    main, groups = source.curves[run], source.groups
    metrics = {str(source.metric): main} | {
        name: of_run[run] for name, of_run in {**source.scores, **source.others}.items() if run in of_run
    }
    found = {
        "name": run,
        "metrics": {name: _metric(curves) for name, curves in metrics.items()},
        "types": source.types(run),
        "floors": _floors(main),
        "stages": source.spans(run),
        "texts": source.contexts.get(run, {}),
        **_groups(groups, run),
        "traces": _traces(source, main),
    }
    found["metrics"][str(source.metric)]["health"] = _health(source, main)
    return found


def _groups(groups: Groups | None, run: str) -> dict[str, Any]:
    """Give the labels by "method|scaling|k", the scope of each part, and the main k of each scope."""
    labels: dict[str, dict[str, int]] = {}
    scopes: dict[str, str] = {}
    for (name, scope, *way), of_part in groups.labels.items() if groups else ():
        if name == run:
            labels.setdefault("|".join(way), {}).update(of_part)
            scopes.update(dict.fromkeys(of_part, scope))
    chosen = {scope: k for (name, scope), (k, _) in groups.chosen.items() if name == run} if groups else {}
    support = {part: round(one.share, 3) for part, one in groups.supports(run).items()} if groups else {}
    return {"labels": labels, "scopes": scopes, "chosen": chosen, "support": support}


def _metric(curves: Curves) -> dict[str, Any]:
    return {
        "parts": curves.parts,
        "datasets": curves.datasets,
        "steps": curves.steps,
        "value": _floats(curves.value_PDT),
        "half": _floats(curves.half_PDT),
        "health": {},
    }


def _floors(curves: Curves) -> dict[str, float]:
    """Give the median error of each part, below which its standard deviation is no scale (see `rllc.scaling`)."""
    known = {
        part: error_DT[np.isfinite(error_DT)] for part, error_DT in zip(curves.parts, curves.error_PDT, strict=True)
    }
    return {part: float(np.median(error)) for part, error in known.items() if error.size}


def _health(source: Source, curves: Curves) -> dict[int, str]:
    """Name the health of what is not ok, by its place among all points."""
    shape = curves.value_PDT.shape
    return {
        int(np.ravel_multi_index(_place(curves, row), shape)): f"{row['health']}: {row['reason']}"
        for row in source.rows
        if row["health"] != "ok" and (row["run"], row["metric"]) == (curves.run, curves.metric)
    }


def _traces(source: Source, curves: Curves) -> dict[str, Any] | None:
    """Give the loss traces times nβ: mean, least and largest of the chains at a few points, in 256 levels each."""
    cells = curves.value_PDT.size
    points = min(POINTS, TRACES // (3 * cells))
    if points < FEWEST:
        return None
    own = [row for row in source.rows if row["key"] and (row["run"], row["metric"]) == (curves.run, curves.metric)]
    first = min((row["seed"] for row in own), default=0)
    rows = {row["key"]: row for row in own if row["seed"] == first}
    place = {key: int(np.ravel_multi_index(_place(curves, row), curves.value_PDT.shape)) for key, row in rows.items()}
    level_XS = np.zeros((cells, 3, points), dtype=np.uint8)
    range_X2 = np.full((cells, 2), np.nan, dtype=np.float32)
    last = 0
    for key, chains in itertools.groupby(estimates.every_trace(source.sweep), key=lambda one: one[0]):
        if key not in place:
            continue
        nbeta = float(estimates.sampler(rows[key]).get("nbeta", 1.0))
        found = [(step_S, nbeta * excess_S) for _, step_S, excess_S in chains]
        step_S = found[0][0]
        last = max(last, int(step_S[-1]))
        at_S = np.linspace(step_S[0], step_S[-1], points)
        value_CS = np.array([np.interp(at_S, step_S, excess_S) for step_S, excess_S in found])
        if np.isfinite(value_CS).all():
            row_3S = np.stack([value_CS.mean(axis=0), value_CS.min(axis=0), value_CS.max(axis=0)])
            low, high = float(row_3S.min()), float(row_3S.max())
            range_X2[place[key]] = low, high
            level_XS[place[key]] = np.round(255 * (row_3S - low) / ((high - low) or 1.0))
    if not last:
        return None
    return {"points": points, "last": last, "levels": _text(level_XS), "range": _text(range_X2)}


def _place(curves: Curves, row: estimates.Row) -> tuple[int, int, int]:
    return (
        curves.parts.index(row["part"]), curves.datasets.index(row["dataset"]), curves.steps.index(row["step"])
    )  # fmt: skip


def _look(look: looks.Look) -> dict[str, str]:
    dash = DASHES.get(look.line) if isinstance(look.line, str) else " ".join(map(str, look.line[1]))
    return {"colour": look.colour, "dash": dash or "none"}


def _floats(value: Values) -> str:
    return _text(value.astype(np.float32))


def _text(value: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()


def _asset(name: str) -> str:
    return importlib.resources.files("rllc.report").joinpath(name).read_text(encoding="utf-8")

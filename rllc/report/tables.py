"""The tables of the page, as HTML with every text escaped."""

import html
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from rllc.report import looks
from rllc.report.estimates import Curves, Row
from rllc.report.grouping import Agreement
from rllc.report.scores import NAMES
from rllc.report.source import Source
from rllc.task import HEALTH

SHOWN = 50  # rows of the table of unhealthy estimates

Cells = Sequence[str]


def table(caption: str, head: Cells, lines: Iterable[Cells]) -> str:
    """Format a table; the first cell of each line is its heading."""
    columns = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in head)
    body = "\n".join(
        f'<tr><th scope="row">{html.escape(first)}</th>'
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in lines
    )
    return (
        f'<div class="wide" tabindex="0"><table><caption>{html.escape(caption)}</caption>\n'
        f"<thead><tr>{columns}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def unhealthy(source: Source) -> str:
    """List the estimates that are not ok, worst first."""
    found = [row for row in source.rows if row["health"] != "ok"]
    if not found:
        return "<p>Every estimate is ok.</p>"
    found.sort(key=lambda row: -HEALTH.index(row["health"]) if row["health"] in HEALTH else 0)
    lines = [
        (
            row["health"],
            row["run"],
            row["part"],
            row["dataset"],
            str(row["step"]),
            row["metric"],
            number(row["value"]),
            row["reason"],
        )
        for row in found[:SHOWN]
    ]
    caption = f"Estimates that are not ok: {len(found)}" + (f", the first {SHOWN} shown" if len(found) > SHOWN else "")
    return table(caption, ("health", "run", "part", "dataset", "step", "metric", "value", "reason"), lines)


def health(source: Source) -> str:
    """Sum up the estimator's diagnostics for each run and dataset."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in source.rows:
        if row["metric"] == source.metric:
            found.setdefault((row["run"], row["dataset"]), []).append(row)
    lines = [
        (
            *cell,
            *(str(sum(row["health"] == state for row in rows)) for state in HEALTH),
            *(_median(rows, name) for name in ("error", "stein", "ess", "rhat")),
            *(_median(rows, name) for name in ("bias_step", "bias_step_most", "bias_burn_in", "localised", "drift")),
            _extreme(rows, "stein", max),
            _extreme(rows, "ess", min),
            _extreme(rows, "rhat", max),
        )
        for cell, rows in sorted(found.items())
    ]
    head = ("run", "dataset", *HEALTH, "error (nats)", "Stein ratio", "effective draws", "R-hat", "step bias, at least",
            "step bias, at most", "burn-in bias", "localised", "drift (nats)", "largest Stein ratio",
            "fewest effective draws", "largest R-hat")  # fmt: skip
    return table("Health of the estimator: counts, medians, and extremes", head, lines)


def heads(source: Source, run: str) -> str:
    """List the parts of a run: type, attention scores, last estimate on each dataset, group."""
    curves = source.curves[run]
    labels, types = looks.group_labels(run, source.groups), source.types(run)
    support = source.groups.supports(run) if source.groups else {}
    scores = {name: of_run[run] for name, of_run in source.scores.items() if run in of_run}
    lines = [
        (
            part,
            types.get(part, "–"),
            str(labels.get(part, "–")),
            number(support[part].share, ".2f") if part in support else "–",
            *(number(_score(of_run, part), ".2f") for of_run in scores.values()),
            *map(measured, curves.value_PDT[p, :, -1], curves.error_PDT[p, :, -1]),
        )
        for p, part in enumerate(curves.parts)
    ]
    head = (
        "part",
        "type",
        "group",
        "with its consensus group",
        *(NAMES[name] for name in scores),
        *(f"{source.symbol} on {d}" for d in curves.datasets),
    )
    return table(f"Run {run} at step {curves.steps[-1]}: value ± one standard error", head, lines)


def agreement(source: Source) -> Iterator[str]:
    """List for each run, and over all, how every clustering at the main k agrees with the types."""
    groups = source.groups
    for run in dict.fromkeys(line.run for line in groups.agreement) if groups else ():
        assert groups is not None
        scopes = {
            scope: {(line.method, line.scaling): line for line in groups.agreed(run, scope)}
            for scope in dict.fromkeys(line.scope for line in groups.agreement if line.run == run)
        }
        ways = list(dict.fromkeys(way for of_scope in scopes.values() for way in of_scope))
        lines = [
            (
                f"{'* ' if way == groups.primary else ''}{method}", how,
                *(text for of_scope in scopes.values() for text in _agreement(of_scope, way)),
            )
            for way in ways
            for method, how in [way]
        ]  # fmt: skip
        head = ("method", "scaling", *(f"{scope} {what}" for scope in scopes for what in ("ARI", "AMI", "p")))
        whose = "all training runs" if run == "all" else f"run {run}"
        yield table(f"Agreement with types of heads, {whose}, at the main k of each scope; * the primary", head, lines)


def transfers(source: Source) -> str:
    """List how well the groups of one training run foretell those of another; empty with a single run."""
    found = source.groups.transfers if source.groups else ()
    lines = [
        (one["scope"], one["source"], one["target"], number(float(one["ari"]), ".2f"), number(float(one["p"]), ".2g"))
        for one in found
    ]
    caption = "Groups of one run, foretold by the nearest mean curve of another (primary clustering, ARI)"
    return table(caption, ("scope", "from", "to", "ARI", "p"), lines) if lines else ""


def number(value: float, form: str = ".3g") -> str:
    """Write a number, with three digits unless told otherwise, and a dash for none."""
    return format(value, form).replace("-", "−") if math.isfinite(value) else "–"


def measured(value: float, error: float) -> str:
    """Write a value and its standard error, both to the second digit of the error."""
    if not (math.isfinite(value) and math.isfinite(error) and error > 0):
        return number(value)
    form = f".{max(0, 1 - math.floor(math.log10(error)))}f"
    return f"{number(value, form)} ± {number(error, form)}"


def _agreement(of_scope: Mapping[tuple[str, str], Agreement], way: tuple[str, str]) -> Cells:
    line = of_scope.get(way)
    return ["–"] * 3 if line is None else [number(line.ari, ".2f"), number(line.ami, ".2f"), number(line.p, ".2g")]


def _score(curves: Curves, part: str) -> float:
    """Average a score over datasets at the last step."""
    return float(curves.averaged()[curves.parts.index(part), -1]) if part in curves.parts else math.nan


def _median(rows: Sequence[Row], name: str) -> str:
    return _extreme(rows, name, lambda known: float(np.median(known)))


def _extreme(rows: Sequence[Row], name: str, of: Callable[[list[float]], float]) -> str:
    known = [float(row[name]) for row in rows if math.isfinite(row[name])]
    return number(of(known)) if known else "–"

"""Figures of the chains of one part: their losses step by step, beside the estimate that came of them."""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from rllc.report import estimates, looks, style
from rllc.report.estimates import Row, Values
from rllc.report.picture import Picture, name
from rllc.report.source import Source

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEPS = 4  # checkpoints shown at most
DATASETS = 4  # shown at most

Chains = list[tuple[Values, Values]]


def pictures(source: Source) -> Iterator[Picture]:
    """Give a figure of the chosen part for each run with traces."""
    for run, part in source.traced.items():
        rows = _rows(source, run, part)
        chains = estimates.traces(source.sweep, [row["key"] for row in rows])
        shown = [row for row in rows if row["key"] in chains]
        if not shown:
            continue
        caption = (
            f"Chains of {part} at a few checkpoints (columns) on each dataset (rows): nβ (ℓ(w_t) − ℓ(w*)) in nats "
            "against the step of the chain. Thin: the minibatch losses of each chain; thick: their running mean since "
            "the burn-in (shaded), which never enters the estimate. The black line is λ̂ with its 95 % interval. "
            "Running means that still climb or fall together at the end are not in equilibrium."
        )
        title = f"Chains of {part}, run {run}"
        yield Picture("Chains", name("traces", run, part), title, caption, functools.partial(traces, shown, chains))


def traces(rows: list[Row], chains: dict[str, Chains]) -> "Figure":
    """Draw a panel for each dataset (row) and step (column)."""
    datasets, steps = sorted({row["dataset"] for row in rows}), sorted({row["step"] for row in rows})
    box = style.across(max(len(steps), 2), 1.9, left=0.66, right=0.12)
    title = f"Chains of {style.shown(rows[0]['part'])} · run {style.shown(rows[0]['run'])}"
    figure, panels = style.panels(len(datasets) * len(steps), max(len(steps), 2), box, title=title)
    of_cell = {(row["dataset"], row["step"]): row for row in rows}
    for n, axes in enumerate(panels):
        dataset, step = datasets[n // len(steps)], steps[n % len(steps)]
        axes.set_title(f"{style.shown(dataset)} · step {step}")
        row = of_cell.get((dataset, step))
        if row is None:
            axes.set_axis_off()
        else:
            panel(axes, row, chains[row["key"]])
    return figure


def panel(axes: "Axes", row: Row, chains: Chains) -> None:
    """Draw the chains of one estimate."""
    sampler = estimates.sampler(row)
    nbeta, burn_in = float(sampler.get("nbeta", 1.0)), float(sampler.get("burn_in", 0))
    for n, (step_S, excess_S) in enumerate(chains):
        look = looks.look(n)
        finite_S = np.where(np.isfinite(excess_S), excess_S, np.nan)
        axes.plot(step_S, nbeta * finite_S, color=look.colour, lw=0.5, alpha=0.3, label=f"chain {n}")
        kept = step_S >= burn_in
        mean_S = nbeta * np.cumsum(finite_S[kept]) / np.arange(1, 1 + kept.sum())
        axes.plot(step_S[kept], mean_S, color=look.colour, linestyle=look.line, lw=1.3, label=f"mean of chain {n}")
    last = max((float(step_S[-1]) for step_S, _ in chains if len(step_S)), default=1.0)
    if burn_in > 0:
        axes.axvspan(0, burn_in, color="#999999", alpha=0.22, lw=0)
    value, half = row["value"], estimates.half_width([row])
    if np.isfinite(value):
        axes.plot([burn_in, last], [value, value], color="black", lw=1.6, label="estimate")
        if np.isfinite(half):
            axes.fill_between([burn_in, last], value - half, value + half, color="black", alpha=0.13, lw=0)
    if row["health"] != "ok":
        axes.text(
            0.97, 0.95, row["health"], transform=axes.transAxes, ha="right", va="top", color="#D55E00", weight="bold"
        )
    axes.set_xlim(0, max(last, 1.0))
    axes.set_xlabel("SGLD step")
    axes.set_ylabel("nβ × excess loss (nats)")


def _rows(source: Source, run: str, part: str) -> list[Row]:
    """Choose the estimates of a part that are shown: first seed, first datasets, a few steps from first to last."""
    found = [row for row in source.rows if (row["run"], row["part"], row["metric"]) == (run, part, source.metric)]
    if not found:
        return []
    every = sorted({row["step"] for row in found})
    steps = {every[i] for i in np.linspace(0, len(every) - 1, min(len(every), STEPS)).round().astype(int)}
    datasets, seed = sorted({row["dataset"] for row in found})[:DATASETS], min(row["seed"] for row in found)
    return [row for row in found if row["step"] in steps and row["dataset"] in datasets and row["seed"] == seed]

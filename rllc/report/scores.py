"""Figures of what the heads attend to over training."""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from rllc.report import ends, looks, style
from rllc.report.curves import short
from rllc.report.picture import Picture, name
from rllc.report.source import Source

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = {"prev_token": "previous token", "current_token": "current token", "prefix": "prefix matching"}


def pictures(source: Source) -> Iterator[Picture]:
    """Give a figure for each run with attention scores."""
    for run in dict.fromkeys(run for of_run in source.scores.values() for run in of_run):
        caption = (
            "Mean attention of each head (share of 1) against the training step, averaged over datasets: to the "
            "token before, to the token itself, and, on a random sequence said twice, to the token after the earlier "
            "copy (prefix matching, the mark of induction). A row for each layer; colour and line: the type of the "
            f"head at the last step.{source.shading(run)}"
        )
        title = f"What the heads attend to, run {run}"
        yield Picture("Attention scores", name("scores", run), title, caption, functools.partial(scores, source, run))


def scores(source: Source, run: str) -> "Figure":
    """Draw the scores of a run: rows of layers, columns of scores."""
    found = {score: of_run[run] for score, of_run in source.scores.items() if run in of_run}
    layers = list(dict.fromkeys(layer for curves in found.values() for layer in curves.layers()))
    tallest = max((len(inside) for curves in found.values() for inside in curves.layers().values()), default=1)
    height = min(max(2.1, tallest * ends.POINTS * ends.LEADING / 72), 9.0)
    box = style.across(max(len(found), 2), height, right=0.55, legend=bool(source.types(run)))
    title = f"Attention scores · run {style.shown(run)}"
    figure, panels = style.panels(len(layers) * len(found), max(len(found), 2), box, title=title)
    for n, axes in enumerate(panels):
        layer, score = layers[n // len(found)], list(found)[n % len(found)]
        if n % len(found) == 0:
            inside = [part for part in found[score].parts if part.startswith(f"{layer}H")]
            style.legend(axes, looks.type_legend(inside, source.types(run)), box)
        axes.set_title(f"{layer} · {NAMES[score]}")
        _panel(axes, source, run, (score, layer), height)
    return figure


def _panel(axes: "Axes", source: Source, run: str, which: tuple[str, str], height: float) -> None:
    """Draw one score of one layer."""
    score, layer = which
    curves, types = source.scores[score][run], source.types(run)
    mean_PT, found = curves.averaged(), []
    for n, p in enumerate(curves.layers().get(layer, ())):
        part, value_T = curves.parts[p], mean_PT[p]
        look = looks.of_type(types.get(part, "other")) if types else looks.look(n)
        style.curve(
            axes, np.array(curves.steps, dtype=np.float64), value_T, np.full_like(value_T, np.nan), look, label=part
        )
        if (known_T := np.flatnonzero(np.isfinite(value_T))).size:
            t = known_T[-1]
            found.append(ends.End(style.shown(short(part, layer)), curves.steps[t], value_T[t], look.colour))
    style.step_axis(axes, curves.steps)
    style.shade(axes, source.spans(run))
    axes.set_ylabel("mean attention (share)")
    axes.set_ylim(-0.02, 1.02)
    ends.label(axes, found, height)

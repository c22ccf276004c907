"""Figures of the estimates over training: every head of every layer on every dataset, with error bands.

Shape letters: P parts, D datasets, T training steps.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rllc.report import ends, looks, style
from rllc.report.estimates import Curves
from rllc.report.looks import Look
from rllc.report.picture import Picture, name
from rllc.report.source import Source

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3  # at most, of panels
SECTION = "Curves over training"


def pictures(source: Source) -> Iterator[Picture]:
    """Give a figure of the heads and one of other parts for each run."""
    bands = (
        "Bands are 95 % intervals of the sampler's own expectation, Student's t from the spread of the chain means "
        "(chains − 1 degrees of freedom); where nothing says how many chains there were, 1.96 errors. A cell without "
        "a number is a gap."
    )
    for run, curves in source.curves.items():
        coloured = looks.group_labels(run, source.groups)
        by = "group in the primary clustering (numbered in each scope by size)" if coloured else "head"
        steps = f"{source.symbol} against the training step"
        if curves.layers():
            title = f"{source.symbol} of every head, run {run}"
            panels = "a row for each layer with one vertical axis, a column for each dataset"
            caption = f"{steps}; {panels}; colour and line: {by}. {bands}{source.shading(run)}"
            yield Picture(SECTION, name("curves", run), title, caption, functools.partial(heads, source, run))
        if curves.others():
            title = f"{source.symbol} of parts that are no heads, run {run}"
            caption = f"{steps}; a panel for each dataset. {bands}{source.shading(run)}"
            yield Picture(SECTION, name("parts", run), title, caption, functools.partial(others, source, run))


def heads(source: Source, run: str) -> "Figure":
    """Draw the heads: rows of layers, columns of datasets."""
    curves = source.curves[run]
    return _rows(source, curves, curves.layers(), f"{source.symbol} of every head · run {style.shown(run)}")


def others(source: Source, run: str) -> "Figure":
    """Draw the parts that are no heads."""
    curves = source.curves[run]
    return _rows(source, curves, {"": curves.others()}, f"{source.symbol} of parts · run {style.shown(run)}")


def _rows(source: Source, curves: Curves, rows: Mapping[str, Sequence[int]], title: str) -> "Figure":
    """Draw one block of panels for each row, with a vertical axis in common."""
    look_of, labels = looks.of_parts(curves, source.groups), looks.group_labels(curves.run, source.groups)
    lines = -(-len(curves.datasets) // COLUMNS)
    columns = -(-len(curves.datasets) // lines)
    names = {row: [style.shown(short(curves.parts[p], row)) for p in inside] for row, inside in rows.items()}
    longest = max(len(text) for of_row in names.values() for text in of_row)
    tallest = max(len(inside) for inside in rows.values())
    height = min(max(2.5, tallest * ends.POINTS * ends.LEADING / 72), 9.0)
    box = style.across(columns, height, right=0.35 + 0.075 * longest, legend=bool(labels))
    figure, panels = style.panels(len(rows) * lines * columns, columns, box, title=title)
    for n, (row, inside) in enumerate(rows.items()):
        block = panels[n * lines * columns : (n + 1) * lines * columns]
        style.legend(block[0], looks.group_legend([curves.parts[p] for p in inside], labels), box)
        for d, axes in enumerate(block):
            if d >= len(curves.datasets):
                axes.set_visible(False)
                continue
            axes.set_title(" · ".join(filter(None, (row, style.shown(curves.datasets[d])))))
            panel(axes, curves, inside, d, look_of)
            style.shade(axes, source.spans(curves.run))
            axes.set_ylabel(source.symbol)
            axes.set_ylim(style.limits(curves.value_PDT[list(inside)], curves.half_PDT[list(inside)]))
            _ends(axes, curves, dict(zip(inside, names[row], strict=True)), d, look_of, height)
    return figure


def panel(axes: "Axes", curves: Curves, inside: Sequence[int], d: int, look_of: Mapping[str, Look]) -> None:
    """Draw some parts on one dataset."""
    steps_T = np.array(curves.steps, dtype=np.float64)
    for p in inside:
        part = curves.parts[p]
        style.curve(axes, steps_T, curves.value_PDT[p, d], curves.half_PDT[p, d], look_of[part], label=part)
    for band in axes.collections:
        band.set_alpha(min(0.16, 1.6 / len(inside)))  # many bands on top of each other would hide the lines
    style.step_axis(axes, curves.steps)
    if axes.get_ylim()[0] < 0 < axes.get_ylim()[1]:
        axes.axhline(0, color="#999999", lw=0.6, zorder=0)


def _ends(
    axes: "Axes", curves: Curves, names: Mapping[int, str], d: int, look_of: Mapping[str, Look], height: float
) -> None:
    """Name each line at its last known point."""
    found = []
    for p, text in names.items():
        known_T = np.flatnonzero(np.isfinite(curves.value_PDT[p, d]))
        if known_T.size:
            t = known_T[-1]
            colour = look_of[curves.parts[p]].colour
            found.append(ends.End(text, curves.steps[t], curves.value_PDT[p, d, t], colour))
    ends.label(axes, found, height)


def short(part: str, layer: str) -> str:
    """Leave out the layer from the name of a part that stands in that layer's row: ("L1H6", "L1") → "H6"."""
    return part.removeprefix(layer) or part

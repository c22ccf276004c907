"""Figures of one dataset against the other: the path of every head over training."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rllc.report import curves as over_training
from rllc.report import ends, looks, style
from rllc.report.estimates import Curves
from rllc.report.looks import Look
from rllc.report.picture import Picture, name
from rllc.report.source import Source

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3  # at most, of panels
NAMED = 16  # heads of a panel that are named; of more, those farthest from the diagonal


def pictures(source: Source) -> Iterator[Picture]:
    """Give a figure for each run with two datasets or more."""
    for run, curves in source.curves.items():
        if len(curves.datasets) < 2:
            continue
        first, second = (style.shown(dataset) for dataset in curves.datasets[:2])
        more = len(curves.datasets) - 2
        caption = (
            f"{source.symbol} on {second} against {source.symbol} on {first}: a path over training for each head, a "
            "panel for each layer. The large marker is the last step known on both, with 95 % intervals; on the grey "
            f"diagonal both are equal. Of more than {NAMED} heads in a panel, those farthest from the diagonal are "
            "named."
        ) + (f" Only the first two datasets are shown; {more} more are in the curves." if more else "")
        title = f"{second} against {first}, run {run}"
        yield Picture(
            "One dataset against the other", name("pairs", run), title, caption, functools.partial(pairs, source, run)
        )


def pairs(source: Source, run: str) -> "Figure":
    """Draw the paths of a run: a panel for each layer, or one for all parts where there are no heads."""
    curves = source.curves[run]
    rows = curves.layers() or {"": curves.others()}
    columns = max(2, min(len(rows), COLUMNS))
    labels, look_of = looks.group_labels(run, source.groups), looks.of_parts(curves, source.groups)
    names = {
        row: [style.shown(over_training.short(curves.parts[p], row)) for p in inside] for row, inside in rows.items()
    }
    right = 0.4 + 0.075 * max(len(text) for of_row in names.values() for text in of_row)
    box = style.across(columns, style.WIDTH / columns - 0.72 - right, right=right, legend=bool(labels))
    first, second = (style.shown(dataset) for dataset in curves.datasets[:2])
    title = f"{source.symbol}: {second} against {first} · run {style.shown(run)}"
    figure, panels = style.panels(len(rows), columns, box, title=title)
    for axes, (row, inside) in zip(panels, rows.items(), strict=True):
        style.legend(axes, looks.group_legend([curves.parts[p] for p in inside], labels), box,
                     room=box.width + box.right)  # fmt: skip
        axes.set_title(row)
        axes.set_xlabel(f"{source.symbol} on {first}")
        axes.set_ylabel(f"{source.symbol} on {second}")
        _paths(axes, curves, dict(zip(inside, names[row], strict=True)), look_of, box.height)
    return figure


def _paths(axes: "Axes", curves: Curves, names: Mapping[int, str], look_of: Mapping[str, Look], height: float) -> None:
    """Draw the paths of one layer."""
    inside, last_T = list(names), np.arange(len(curves.steps)) == len(curves.steps) - 1
    low, high = style.limits(curves.value_PDT[inside, :2], np.where(last_T, curves.half_PDT[inside, :2], np.nan))
    axes.plot([low, high], [low, high], color="#BBBBBB", lw=1, zorder=0, label="diagonal")
    found = []
    for p, text in names.items():
        part, (x_T, y_T), half_DT = curves.parts[p], curves.value_PDT[p, :2], curves.half_PDT[p, :2]
        look = look_of[part]
        axes.plot(x_T, y_T, color=look.colour, linestyle=look.line, lw=0.9, marker=".", markersize=2.5, label=part)
        known_T = np.flatnonzero(np.isfinite(x_T) & np.isfinite(y_T))
        if known_T.size:
            t = int(known_T[-1])
            _last(axes, (float(x_T[t]), float(y_T[t])), half_DT[:, t].tolist(), look)
            found.append(ends.End(text, float(x_T[t]), float(y_T[t]), look.colour))
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    found.sort(key=lambda end: -abs(end.y - end.x))
    ends.label(axes, found[:NAMED], height)


def _last(axes: "Axes", point: tuple[float, float], half: Sequence[float], look: Look) -> None:
    """Mark the last step, with its intervals where they are known."""
    x, y = point
    axes.plot([x], [y], color=look.colour, marker=look.marker, markersize=5.5, linestyle="none")
    axes.plot([x - half[0], x + half[0]], [y, y], color=look.colour, lw=0.8, alpha=0.6)
    axes.plot([x, x], [y - half[1], y + half[1]], color=look.colour, lw=0.8, alpha=0.6)

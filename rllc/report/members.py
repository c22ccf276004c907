"""Figures of the groups: what each method put together, with the mean of every group.

Shape letters: P parts, D datasets, T points of a curve.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rllc import scaling, trajectories
from rllc.report import looks, style
from rllc.report.curves import short
from rllc.report.estimates import Values
from rllc.report.grouping import Groups
from rllc.report.picture import Picture, name
from rllc.report.source import Source
from rllc.trajectories import Trajectories

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3  # datasets shown at most
EVEN = ", resampled to points that are even in log(1 + step / first step above 0)"
LETTERS = 118  # of a line that lists the members
UNITS = {
    "none": "{} as it is",
    "global": "{} divided by each dataset's standard deviation over all heads and steps",
    "standardize": "{} of each head minus its mean, in its own standard deviations",
    "minmax": "{} of each head from 0, its least, to 1, its largest",
}
SHORT = {
    "none": "{} as it is",
    "global": "{} / sd of dataset",
    "standardize": "{}, standardised",
    "minmax": "{}, 0 to 1",
}


def pictures(source: Source) -> Iterator[Picture]:
    """Give a figure for each run and scope, if the curves have no holes now."""
    groups = source.groups
    if groups is None:
        return
    method, how = groups.primary
    for run, scope in groups.chosen:
        k, origin = groups.chosen[run, scope]
        caption = (
            f"The curves as they are clustered with scaling {how} ({UNITS[how].format(source.symbol)}), at k = {k} "
            f"({origin}){EVEN if groups.settings['options']['logx'] else ''}; k-shape looks at every curve "
            "standardised by itself. Thin: the members; thick: their mean, point by point. A row for each method "
            f"(the primary is {method}), a column for each dataset; both datasets of a head are clustered together. "
            "Group numbers go by size and are not matched between methods."
        )
        title = f"Groups of {scope} by every method, run {run}"
        if run in source.clustered:
            draw = functools.partial(members, groups, source.clustered[run], scope, source.symbol)
            yield Picture("Groups", name("groups", run, scope), title, caption, draw)


def members(groups: Groups, curves: Trajectories, scope: str, symbol: str) -> "Figure":
    """Draw the groups of one scope: rows of methods, columns of datasets."""
    options, (_, how) = groups.settings["options"], groups.primary
    methods, columns = options["methods"], min(len(curves.datasets), COLUMNS)
    k, _ = groups.chosen[curves.run, scope]
    box = style.Box(style.WIDTH / columns - 0.92, 1.75, left=0.72, right=0.2, head=0.62, foot=0.46)
    title = f"Groups of {scope}, k = {k}, scaling {how} · run {style.shown(curves.run)}"
    figure, panels = style.panels(len(methods) * columns, columns, box, title=title)
    for n, axes in enumerate(panels):
        method, d = methods[n // columns], n % columns
        labels = groups.main(curves.run, scope, method, how)
        marked = " (primary)" if (method, how) == groups.primary else ""
        axes.set_title(f"{method}{marked} · {style.shown(curves.datasets[d])}")
        axes.set_ylabel(SHORT[how].format(symbol.partition(" ")[0]))
        if not labels:
            axes.text(0.5, 0.5, "failed", transform=axes.transAxes, ha="center", color="#777777")
            continue
        x_T, scaled_PDT = scaled(groups, curves, list(labels))
        _groups(axes, x_T, scaled_PDT[:, d], labels)
        if options["logx"]:
            style.even_axis(axes, curves.steps)
        else:
            style.step_axis(axes, curves.steps)
        if d == 0:
            _list(axes, labels, scope, box)
    return figure


def _groups(axes: "Axes", x_T: Values, value_PT: Values, labels: Mapping[str, int]) -> None:
    """Draw the members thin and the mean of each group thick."""
    label_P = np.array(list(labels.values()))
    for part, label, value_T in zip(labels, label_P, value_PT, strict=True):
        axes.plot(x_T, value_T, color=looks.look(label).colour, lw=0.7, alpha=0.55, label=part)
    for label in np.unique(label_P):
        look, mean_T = looks.look(label), value_PT[label_P == label].mean(0)
        axes.plot(x_T, mean_T, color=look.colour, linestyle=look.line, lw=2.4, label=f"group {label}")


def _list(axes: "Axes", labels: Mapping[str, int], scope: str, box: style.Box) -> None:
    """Write who is in which group, as a legend above a row."""
    inside: dict[int, list[str]] = {}
    for part, label in labels.items():
        inside.setdefault(label, []).append(style.shown(short(part, scope)))
    room = LETTERS // len(inside) - 12
    entries = []
    for label in sorted(inside):
        text = " ".join(inside[label])
        shown = text if len(text) <= room else f"{text[: room - 1].rpartition(' ')[0]} …"
        entries.append((f"{label} ({len(inside[label])}): {shown}", replace(looks.look(label), marker="")))
    style.legend(axes, entries, box)


def scaled(groups: Groups, curves: Trajectories, parts: list[str]) -> tuple[Values, Values]:
    """Give the curves of some parts as the primary scaling makes them, and the training steps of their points."""
    inside = [curves.parts.index(part) for part in parts]
    value_PDT, steps_T = curves.value_PDT[inside], np.asarray(curves.steps, dtype=np.float64)
    if groups.settings["options"]["logx"]:
        value_PDT = scaling.resample(curves.steps, value_PDT)
        steps_T = trajectories.unit(curves.steps) * np.expm1(scaling.even(curves.steps))
    how = groups.settings["options"]["primary"]["scaling"]
    return steps_T, scaling.scale(value_PDT, curves.error_PDT[inside], how)

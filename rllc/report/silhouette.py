"""Figures of the silhouette over k, beside what curves without common structure give."""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from rllc.report import looks, over_k, style
from rllc.report.grouping import Groups
from rllc.report.picture import Picture, name
from rllc.report.source import Source

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def pictures(source: Source) -> Iterator[Picture]:
    """Give a figure for each run with clusters."""
    groups = source.groups
    if groups is None:
        return
    method, how = groups.primary
    caption = (
        f"Silhouette (from −1 to 1, no unit) of the primary clustering, {method} with scaling {how}, against the "
        "number of groups k; a panel for each scope. Grey: the same on curves that have nothing in common, random "
        "walks of each head's own increments or its curves with phases shuffled, whichever is stricter: their median, "
        "and shaded up to their 95 % quantile. A silhouette inside the shade says nothing. The ring is the k that is "
        "used."
    )
    for run in groups.runs:
        title = f"How many groups, run {run}"
        yield Picture("Groups", name("silhouette", run), title, caption, functools.partial(silhouette, groups, run))


def silhouette(groups: Groups, run: str) -> "Figure":
    """Draw a panel for each scope."""
    figure, panels, box = over_k.panels(groups, run, "Silhouette")
    for scope, axes in panels.items():
        ks, value_K = over_k.null(axes, groups, "silhouette", run=run, scope=scope)
        look = looks.look(0)
        axes.plot(ks, value_K, color=look.colour, marker=look.marker, ms=4, label="silhouette")
        main = groups.chosen[run, scope][0]
        if main in ks and np.isfinite(value := value_K[ks.index(main)]):
            axes.plot([main], [value], "o", ms=11, mfc="none", mec=look.colour, mew=1.4)
        axes.set_ylabel("silhouette")
        axes.margins(y=0.15)
    first = next(iter(panels.values()))
    style.above(first, *first.get_legend_handles_labels(), box)
    return figure

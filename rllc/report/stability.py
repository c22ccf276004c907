"""Figures of how far groups survive when the curves move within their errors, over k."""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from rllc.report import looks, over_k, style
from rllc.report.grouping import Groups
from rllc.report.picture import Picture, name
from rllc.report.source import Source
from rllc.stability import READINGS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASIS = {
    "chains": "the chains are drawn again with replacement, the same for all heads and steps of a dataset",
    "errors": "the curves are moved by independent normal errors, since the single chains are not known",
}


def pictures(source: Source) -> Iterator[Picture]:
    """Give a figure for each run whose groups were drawn again."""
    groups = source.groups
    if groups is None:
        return
    method, how = groups.primary
    for run in groups.runs:
        basis = groups.settings.get("draws_from", {}).get(run, "none")
        if basis not in BASIS or not any(
            np.isfinite(one.jaccard) for way, found in groups.stability.items() if way[0] == run for one in found
        ):
            continue
        caption = (
            f"Stability of each group of the primary clustering, {method} with scaling {how}, against the number of "
            f"groups k: the mean over draws of its largest Jaccard index with a group there (1: always found again); "
            f"{BASIS[basis]}. Colour and shape of a marker: number of the group at that k; size: of the group. Dashed "
            f"lines: the usual reading, 0.85 highly stable, 0.75 "
            "stable, below 0.6 not to be trusted. Crosses: the mean over heads; grey: the same on curves without "
            "common structure that carry the same errors, median to 95 % of the stricter null. Ring: the least stable "
            "group at the k that is used."
        )
        title = f"How stable the groups are, run {run}"
        yield Picture("Groups", name("stability", run), title, caption, functools.partial(stability, groups, run))


def stability(groups: Groups, run: str) -> "Figure":
    """Draw a panel for each scope."""
    figure, panels, box = over_k.panels(groups, run, "Stability")
    for scope, axes in panels.items():
        ks, value_K = over_k.null(axes, groups, "jaccard", run=run, scope=scope)
        way = (run, scope, *groups.primary)
        found = {int(one[4]): of for one, of in groups.stability.items() if one[:4] == way}
        for least, _ in READINGS[:-1]:
            axes.axhline(least, color="#BBBBBB", lw=0.8, ls=(0, (4, 2)), zorder=0)
        for k, of_k in found.items():
            for label, one in enumerate(of_k):
                look = looks.look(label)
                axes.plot([k], [one.jaccard], look.marker, color=look.colour, ms=3 + 1.4 * np.sqrt(one.size))
        axes.plot(ks, value_K, "x", color="black", ms=6, label="mean over heads")
        main = groups.chosen[run, scope][0]
        if main in found:
            least_stable = min(one.jaccard for one in found[main])
            axes.plot([main], [least_stable], "o", ms=15, mfc="none", mec="black", mew=1.2)
        axes.set_xlim(ks[0] - 0.4, ks[-1] + 0.4)
        axes.set_ylim(min(0.32, axes.get_ylim()[0]), 1.04)
        axes.set_ylabel("Jaccard stability")
    first = next(iter(panels.values()))
    style.above(first, *first.get_legend_handles_labels(), box)
    return figure

"""Figures of the silhouette over k, beside what curves without common structure give."""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from rllc.report import looks, style
from rllc.report.grouping import Groups
from rllc.report.picture import Picture, name
from rllc.report.source import Source

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 3  # at most, of panels


def pictures(source: Source) -> Iterator[Picture]:
    """Give a figure for each run with clusters."""
    groups = source.groups
    if groups is None:
        return
    method, how = groups.primary
    caption = (
        f"Silhouette (from −1 to 1, no unit) of the primary clustering, {method} with scaling {how}, against the "
        "number of groups k; a panel for each scope. Grey: the same on random walks made of each head's own "
        "increments, which have nothing in common: their median, and shaded up to their 95 % quantile. A silhouette "
        "inside the shade says nothing. The ring is the k that is used."
    )
    for run in dict.fromkeys(run for run, _ in groups.chosen):
        title = f"How many groups, run {run}"
        yield Picture("Groups", name("silhouette", run), title, caption, functools.partial(silhouette, groups, run))


def silhouette(groups: Groups, run: str) -> "Figure":
    """Draw a panel for each scope."""
    scopes = groups.scopes(run)
    columns = max(2, min(len(scopes), COLUMNS))
    box = style.across(columns, 2.3, legend=True)
    figure, panels = style.panels(len(scopes), columns, box, title=f"Silhouette over k · run {style.shown(run)}")
    for axes, scope in zip(panels, scopes, strict=True):
        found = {
            int(way[4]): scores
            for way, scores in groups.scores["silhouette"].items()
            if way[:4] == (run, scope, *groups.primary)
        }
        ks = sorted(found)
        value_K, median_K, q95_K = np.array([found[k] for k in ks]).reshape(-1, 3).T
        axes.fill_between(ks, median_K, q95_K, color="#999999", alpha=0.3, lw=0, label="null up to 95 %")
        axes.plot(ks, median_K, color="#777777", ls="--", lw=1.2, label="null median")
        look = looks.look(0)
        axes.plot(ks, value_K, color=look.colour, marker=look.marker, ms=4, label="silhouette")
        main = groups.chosen[run, scope][0]
        if main in found and np.isfinite(found[main][0]):
            axes.plot([main], [found[main][0]], "o", ms=11, mfc="none", mec=look.colour, mew=1.4)
        axes.set_title(f"{scope} · k = {main} ({groups.chosen[run, scope][1]})")
        axes.set_xticks(ks)
        axes.set_xlabel("number of groups k")
        axes.set_ylabel("silhouette")
        axes.margins(y=0.15)
    style.above(panels[0], *panels[0].get_legend_handles_labels(), box)
    return figure

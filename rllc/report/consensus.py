"""Figures of which heads go together over all methods, scalings and draws of the chains.

Shape letter: P parts.
"""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from rllc import stability
from rllc.report import looks, style
from rllc.report.curves import short
from rllc.report.estimates import Values
from rllc.report.grouping import Groups
from rllc.report.picture import Picture, name
from rllc.report.source import Source

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 2
NUMBERS = 16  # parts up to which the shares are written into the cells
NAMED = 80  # parts up to which each has its name


def pictures(source: Source) -> Iterator[Picture]:
    """Give a figure for each run with clusters."""
    groups = source.groups
    if groups is None:
        return
    for run in groups.runs:
        if any(groups.shares.get((run, scope)) for scope in groups.scopes(run)):
            caption = (
                "Share of clusterings in which two heads are in one group, from 0 (never) to 1 (always), at the main k "
                "of a scope; over all methods, scalings and draws of the chains, each method weighing alike. Heads are "
                "ordered by the average-linkage tree of 1 − share; white lines part the consensus groups. Blocks with "
                "sharp edges are groups that do not depend on how one looks; a smooth passage is none."
            )
            title = f"Who goes together, run {run}"
            yield Picture("Groups", name("consensus", run), title, caption, functools.partial(consensus, groups, run))


def consensus(groups: Groups, run: str) -> "Figure":
    """Draw a matrix for each scope."""
    scopes = [scope for scope in groups.scopes(run) if groups.shares.get((run, scope))]
    box = style.across(COLUMNS, 4.2, left=0.9, right=0.3)
    box = style.Box(box.width, box.width, left=box.left, right=box.right, head=0.34, foot=0.75)
    title = f"Share of clusterings together · run {style.shown(run)}"
    figure, panels = style.panels(len(scopes), COLUMNS, box, title=title)
    for axes, scope in zip(panels, scopes, strict=True):
        parts, share_PP = matrix(groups, run, scope)
        _matrix(axes, share_PP, [style.shown(short(part, scope)) for part in parts])
        support = groups.support.get((run, scope), {})
        label = [support[part].group if part in support else -1 for part in parts]
        for place in np.flatnonzero(np.diff(label)) + 0.5:
            axes.axhline(place, color="white", lw=1.6)
            axes.axvline(place, color="white", lw=1.6)
        for tick, of_part in zip(axes.get_yticklabels(), label, strict=False):
            tick.set_color(looks.look(of_part).colour if of_part >= 0 else "black")
        axes.set_title(f"{scope} · k = {groups.chosen[run, scope][0]}")
    return figure


def matrix(groups: Groups, run: str, scope: str) -> tuple[list[str], Values]:
    """Give the parts in the order of the tree of 1 − share, groups in one piece, and share_PP."""
    from scipy.cluster import hierarchy

    found = groups.shares[run, scope]
    parts = list(dict.fromkeys(part for pair in found for part in pair))
    share_PP = np.eye(len(parts))
    for (a, b), share in found.items():
        share_PP[parts.index(a), parts.index(b)] = share_PP[parts.index(b), parts.index(a)] = share
    leaves = hierarchy.leaves_list(stability.linkage(1 - share_PP, "average")).tolist()
    support = groups.support.get((run, scope), {})
    leaves.sort(key=lambda p: support[parts[p]].group if parts[p] in support else 0)
    return [parts[p] for p in leaves], share_PP[np.ix_(leaves, leaves)]


def _matrix(axes: "Axes", share_PP: Values, names: list[str]) -> None:
    place_P = np.arange(len(names))
    axes.pcolormesh(place_P, place_P, share_PP, cmap="cividis", vmin=0, vmax=1, shading="nearest", rasterized=True)
    if len(names) <= NUMBERS:
        for (i, j), share in np.ndenumerate(share_PP):
            text = "1" if share > 0.995 else f"{share:.2f}".lstrip("0")
            axes.text(j, i, text, ha="center", va="center", fontsize=6.5, color="black" if share > 0.55 else "white")
    shown = place_P if len(names) <= NAMED else place_P[:0]
    size = min(7.5, 300 / max(len(names), 1))
    axes.set_xticks(shown, [names[p] for p in shown], rotation=90, fontsize=size)
    axes.set_yticks(shown, [names[p] for p in shown], fontsize=size)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.tick_params(length=0)

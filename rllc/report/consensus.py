"""Figures of which heads go together over all methods, scalings and draws of the chains.

Shape letter: P parts.
"""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from rllc import stability
from rllc.report import looks, matrix, style
from rllc.report.curves import short
from rllc.report.estimates import Values
from rllc.report.grouping import Groups
from rllc.report.picture import Picture, name
from rllc.report.source import Source

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 2


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
                "ordered by the average-linkage tree of 1 − share; white lines part the consensus groups, names have "
                "the colour of their group in the primary clustering. Dark is never, bright is always. Blocks with "
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
        parts, share_PP = ordered(groups, run, scope)
        matrix.draw(axes, share_PP, [style.shown(short(part, scope)) for part in parts], low=0)
        support = groups.support.get((run, scope), {})
        label = [support[part].group if part in support else -1 for part in parts]
        for place in np.flatnonzero(np.diff(label)) + 0.5:
            axes.axhline(place, color="white", lw=1.6)
            axes.axvline(place, color="white", lw=1.6)
        primary = groups.main(run, scope, *groups.primary)
        for tick, part in zip(axes.get_yticklabels(), parts, strict=False):
            tick.set_color(looks.look(primary[part]).colour if part in primary else "black")
        axes.set_title(f"{scope} · k = {groups.chosen[run, scope][0]}")
    return figure


def ordered(groups: Groups, run: str, scope: str) -> tuple[list[str], Values]:
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

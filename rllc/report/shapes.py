"""Figures of the curves as points: principal components, and the tree of the hierarchical method.

Shape letters: P parts, F numbers of a curve (datasets × points), D datasets.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from rllc import kmedoids, methods, stability
from rllc.report import looks, members, style
from rllc.report.curves import short
from rllc.report.estimates import Values
from rllc.report.grouping import Groups
from rllc.report.picture import Picture, name
from rllc.report.source import Source
from rllc.trajectories import Trajectories

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED = 40  # parts of a scope that are named


def pictures(source: Source) -> Iterator[Picture]:
    """Give a figure for each run, if the curves have no holes now."""
    groups = source.groups
    if groups is None:
        return
    _, how = groups.primary
    for run in groups.runs:
        if run not in source.clustered:
            continue
        caption = (
            f"Left: the curves of each scope, scaled as they are clustered ({how}), as points in their first two "
            "principal components (share of the variance on the axes); a ring around the medoid of each group, the "
            "head from which all others of the group are least far. Right: the tree of Ward's method on the same "
            "points; the height of a join is the growth of the within-group sum of squares, as its square root. Colour "
            "and marker: group in the primary clustering."
        )
        title, curves = f"Heads as points, run {run}", source.clustered[run]
        yield Picture("Groups", name("shapes", run), title, caption, functools.partial(shapes, groups, curves))


def shapes(groups: Groups, curves: Trajectories) -> "Figure":
    """Draw a row for each scope: components, and tree."""
    scopes = groups.scopes(curves.run)
    box = style.across(2, 2.9, left=0.8)
    title = f"Curves as points · run {style.shown(curves.run)}"
    figure, panels = style.panels(2 * len(scopes), 2, box, title=title)
    for n, scope in enumerate(scopes):
        labels = groups.main(curves.run, scope, *groups.primary)
        if not labels:
            panels[2 * n].text(0.5, 0.5, "the primary clustering failed", ha="center", color="#777777")
            continue
        _, scaled_PDT = members.scaled(groups, curves, list(labels))
        points_PF = scaled_PDT.reshape(len(labels), -1)
        _components(panels[2 * n], points_PF, labels, scope, medoids(groups, curves, labels))
        _tree(panels[2 * n + 1], points_PF, labels, scope)
    return figure


def medoids(groups: Groups, curves: Trajectories, labels: Mapping[str, int]) -> dict[int, str]:
    """Name the medoid of each group, in the distance of the primary method."""
    parts, label_P = list(labels), np.array(list(labels.values()))
    _, scaled_PDT = members.scaled(groups, curves, parts)
    method = groups.settings["options"]["primary"]["method"]
    dist_PP = methods.distances(method, np.ascontiguousarray(scaled_PDT.transpose(0, 2, 1)))
    inside = {label: np.flatnonzero(label_P == label) for label in sorted(set(labels.values()))}
    return {label: parts[of[kmedoids.medoid(dist_PP[np.ix_(of, of)])]] for label, of in inside.items()}


def components(points_PF: Values) -> tuple[Values, Values]:
    """Give the first two principal components of each point, and the share of the variance of each.

    The sign is such that the largest loading is positive.
    """
    centred_PF = points_PF - points_PF.mean(axis=0)
    left_PK, size_K, right_KF = np.linalg.svd(centred_PF, full_matrices=False)
    sign_K = np.sign(right_KF[np.arange(len(right_KF)), np.abs(right_KF).argmax(axis=1)])
    total = float((size_K**2).sum()) or 1.0
    return (left_PK * size_K * sign_K)[:, :2], (size_K**2 / total)[:2]


def _components(
    axes: "Axes", points_PF: Values, labels: Mapping[str, int], scope: str, medoid: Mapping[int, str]
) -> None:
    at_PK, share_K = components(points_PF)
    label_P, parts = np.array(list(labels.values())), list(labels)
    for label in sorted(set(labels.values())):
        look, inside = looks.look(label), np.flatnonzero(label_P == label)
        axes.plot(*at_PK[inside].T, look.marker, color=look.colour, ms=5, label=f"group {label}")
        axes.plot(*at_PK[parts.index(medoid[label])], "o", ms=12, mfc="none", mec=look.colour, mew=1.2)
    if len(labels) <= NAMED:
        for part, (x, y) in zip(labels, at_PK, strict=True):
            text = style.shown(short(part, scope))
            axes.annotate(text, (x, y), xytext=(5, 4), textcoords="offset points", fontsize=7)
    axes.set_title(f"{scope} · principal components")
    axes.set_xlabel(f"first component ({share_K[0]:.0%} of the variance)")
    axes.set_ylabel(f"second component ({share_K[1]:.0%})" if len(share_K) > 1 else "")
    axes.margins(0.14)


def _tree(axes: "Axes", points_PF: Values, labels: Mapping[str, int], scope: str) -> None:
    from scipy.cluster import hierarchy

    dist_PP = methods.euclidean(points_PF)
    tree = hierarchy.dendrogram(stability.linkage(dist_PP, "ward"), no_plot=True)
    for x, y in zip(tree["icoord"], tree["dcoord"], strict=True):
        axes.plot(x, y, color="#555555", lw=0.9)
    order, parts = list(tree["leaves"] or ()), list(labels)
    names = [style.shown(short(parts[p], scope)) for p in order]
    axes.set_xticks(10 * np.arange(len(order)) + 5, names, rotation=90, fontsize=min(7.5, 260 / max(len(order), 1)))
    for tick, p in zip(axes.get_xticklabels(), order, strict=True):
        tick.set_color(looks.look(labels[parts[p]]).colour)
    for place, p in enumerate(order):
        look = looks.look(labels[parts[p]])
        axes.plot([10 * place + 5], [0], look.marker, color=look.colour, ms=4, clip_on=False)
    axes.set_title(f"{scope} · tree of Ward's method")
    axes.set_ylabel("height of the join")
    axes.set_ylim(bottom=0)
    axes.grid(visible=False, axis="x")

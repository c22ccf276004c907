"""Figures of how far clusterings agree: with each other, with the types of heads, and over training runs.

Shape letter: M clusterings, each a method with a scaling.
"""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from rllc.report import looks, matrix, style
from rllc.report.grouping import Agreement, Groups
from rllc.report.picture import Picture, name
from rllc.report.source import Source

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3  # at most, of panels
SECTION = "Agreement"
LINE = 0.2  # inches of a line of a dot plot
INDEX = "adjusted Rand index (1 the same groups, 0 as by chance; no unit)"


def pictures(source: Source) -> Iterator[Picture]:
    """Give the figures of each run, and one over runs."""
    groups = source.groups
    if groups is None:
        return
    for run in groups.runs:
        if any(groups.between.get((run, scope)) for scope in groups.scopes(run)):
            caption = (
                f"{INDEX[0].upper()}{INDEX[1:]} between each two clusterings at the main k of a scope; a panel for "
                "each scope, names as method/scaling, * the primary. k-shape is blind to scaling. Failed clusterings "
                "are left out."
            )
            title = f"Methods and scalings against each other, run {run}"
            yield Picture(SECTION, name("between", run), title, caption, functools.partial(between, groups, run))
        if _scopes(groups, run):
            caption = (
                "How far each clustering agrees with the types that the heads have by their attention: filled, "
                f"{INDEX}; open, adjusted mutual information. On the right p, the share of random arrangements of the "
                "types that agree as well. * and bold: the primary, named before looking; the others are shown for "
                "comparison and not corrected for their number."
            )
            title = f"Groups against types of heads, run {run}"
            yield Picture(SECTION, name("agreement", run), title, caption, functools.partial(agreement, groups, run))
    if _scopes(groups, "all"):
        caption = (
            f"{INDEX[0].upper()}{INDEX[1:]} with the types of heads for each training run (open markers) and on "
            "average (bar), a panel for each scope; on the right p of the average. * and bold: the primary, named "
            "before looking."
        )
        yield Picture(SECTION, "agreement-runs", "Over training runs", caption, lambda: over_runs(groups))


def between(groups: Groups, run: str) -> "Figure":
    """Draw a matrix for each scope."""
    scopes = [scope for scope in groups.scopes(run) if groups.between.get((run, scope))]
    box = style.across(2, 4.1, left=1.5, right=0.1)
    box = style.Box(box.width, box.width, left=box.left, right=box.right, head=0.34, foot=1.55)
    title = f"ARI between clusterings · run {style.shown(run)}"
    figure, panels = style.panels(len(scopes), 2, box, title=title)
    for axes, scope in zip(panels, scopes, strict=True):
        ari = groups.between[run, scope]
        names = list(dict.fromkeys(one for pair in ari for one in pair))
        matrix_MM = np.ones((len(names), len(names)))
        for (a, b), value in ari.items():
            i, j = names.index(a), names.index(b)
            matrix_MM[i, j] = matrix_MM[j, i] = value
        low = min(-0.2, float(np.nanmin(matrix_MM)))
        matrix.draw(axes, matrix_MM, [_starred(one, groups) for one in names], low=low)
        axes.set_title(f"{scope} · k = {groups.chosen[run, scope][0]}")
    return figure


def agreement(groups: Groups, run: str) -> "Figure":
    """Draw ARI and AMI of each clustering, with p beside them; a panel for each scope and their mean."""
    scopes = _scopes(groups, run)
    lines = {scope: groups.agreed(run, scope) for scope in scopes}
    figure, panels, box = _dots(groups, lines, f"Agreement with types of heads · run {style.shown(run)}")
    ari, ami = looks.look(0).colour, looks.look(1).colour
    for axes, scope in zip(panels, scopes, strict=True):
        y_M = np.arange(len(lines[scope]))
        axes.plot([line.ari for line in lines[scope]], y_M, "o", color=ari, ms=4.5, label="ARI")
        axes.plot([line.ami for line in lines[scope]], y_M, "D", mfc="none", mec=ami, ms=6.5, label="AMI")
        axes.set_xlabel("index (no unit)")
    style.above(panels[0], *panels[0].get_legend_handles_labels(), box)
    return figure


def over_runs(groups: Groups) -> "Figure":
    """Draw the ARI of each run, and the mean over runs; a panel for each scope and their mean."""
    scopes = _scopes(groups, "all")
    lines = {scope: groups.agreed("all", scope) for scope in scopes}
    figure, panels, box = _dots(groups, lines, "Agreement with types of heads · all training runs")
    runs = groups.runs
    for axes, scope in zip(panels, scopes, strict=True):
        y_M = np.arange(len(lines[scope]))
        for n, run in enumerate(runs):
            look, shift = looks.look(n), 0.5 * ((n + 0.5) / len(runs) - 0.5)
            ari = _of_run(groups, run, scope)
            found = [ari.get((line.method, line.scaling), np.nan) for line in lines[scope]]
            axes.plot(found, y_M + shift, look.marker, mfc="none", mec=look.colour, ms=4.5, label=style.shown(run))
        axes.plot([line.ari for line in lines[scope]], y_M, "|", color="black", ms=13, mew=2.2, label="mean")
        axes.set_xlabel("adjusted Rand index (no unit)")
    style.above(panels[0], *panels[0].get_legend_handles_labels(), box)
    return figure


def _of_run(groups: Groups, run: str, scope: str) -> dict[tuple[str, str], float]:
    """Give the ARI of each clustering of one run in a scope over all runs, at the k that is compared over all runs."""
    own = groups.scopes(run)[0] if scope == "mean" and len(groups.scopes(run)) == 1 else scope
    k = groups.headline("all", scope)
    k = groups.headline(run, own) if k == "main" else k
    return {
        (line.method, line.scaling): line.ari
        for line in groups.agreement
        if (line.run, line.scope, line.k) == (run, own, k)
    }


def _dots(groups: Groups, lines: dict[str, list[Agreement]], title: str) -> "tuple[Figure, list[Axes], style.Box]":
    """Prepare dot plots: a panel for each scope, a line for each clustering, p on the right."""
    columns = min(max(len(lines), 2), COLUMNS)
    box = style.across(
        columns, LINE * max(len(of_scope) for of_scope in lines.values()), left=1.62, right=0.62, legend=True
    )
    figure, panels = style.panels(len(lines), columns, box, title=title)
    for axes, (scope, of_scope) in zip(panels, lines.items(), strict=True):
        names = [_starred(f"{line.method}/{line.scaling}", groups) for line in of_scope]
        k = of_scope[0].k
        axes.set_title(f"{scope} · {'each with its own k' if k == 'main' else f'k = {k}'}")
        axes.set_yticks(range(len(names)), names, fontsize=7.5)
        for tick, line in zip(axes.get_yticklabels(), of_scope, strict=True):
            tick.set_fontweight("bold" if line.primary else "normal")
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.axvline(0, color="#999999", lw=0.8, zorder=0)
        axes.set_xlim(-0.55, 1.08)
        for y, line in enumerate(of_scope):
            text = "undefined" if np.isnan(line.ari) else f"p {line.p:.2g}"
            weight = "bold" if line.primary else "normal"
            axes.text(1.03, y, text, transform=axes.get_yaxis_transform(), va="center", fontsize=7.5, fontweight=weight)
    return figure, panels, box


def _scopes(groups: Groups, run: str) -> list[str]:
    """Name the scopes of agreement.csv of a run (or "all"), the mean over them last."""
    found = dict.fromkeys(line.scope for line in groups.agreement if line.run == run)
    return [scope for scope in found if groups.agreed(run, scope)]


def _starred(way: str, groups: Groups) -> str:
    return f"* {way}" if way == "/".join(groups.primary) else way

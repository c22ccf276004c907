"""Two settings in two panels: where λ̂ is the learning coefficient, and where it counts stiff directions."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rllc.report import looks, style
from rllc.validation.rows import PAPER, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY = "#777777"
EQUAL = (20, 100)  # numbers of equal directions whose saturation is drawn


def draw(rows: Sequence[Row]) -> "Figure":
    """Draw λ̂ against λ at each case's own setting, and against ½ nβ/γ Tr H at the paper's; inside `style.settings`."""
    counts = Counter(row.family for row in rows)
    several = [family for family, count in counts.items() if count > 1]
    look = {family: looks.look(several.index(family)) if family in several else looks.PLAIN for family in counts}
    box = style.across(2, 4.2, legend=True)
    figure, (own, paper) = style.panels(2, 2, box, title="The same losses at two settings of the sampler")
    setting = f"nβ = {PAPER.nbeta:g}, γ = {PAPER.gamma:g}"
    _panel(own, "large nβ, small γ: λ̂ is the learning coefficient (the line)", "exact λ")
    _panel(paper, f"{setting}: λ̂ counts curvature (the line)", f"½ nβ/γ Tr H at w*, {setting}")
    for family in counts:
        members = [row for row in rows if row.family == family]
        _points(own, [(row.exact, row.value) for row in members], look[family])
        _points(paper, [(row.count, row.paper) for row in members], look[family])
    legend = [(family, replace(look[family], line="")) for family in counts]
    style.legend(own, legend[:4], box)
    style.legend(paper, legend[4:], box)
    for axes in (own, paper):
        ends = np.array([axes.dataLim.x0, axes.dataLim.x1])
        axes.plot(ends, ends, color=GREY, linewidth=1, zorder=1)
    _saturation(paper)
    return figure


def _panel(axes: "Axes", title: str, x_name: str) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set(xscale="log", yscale="log", title=title, xlabel=x_name, ylabel="λ̂ (nats)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def _points(axes: "Axes", pairs: Sequence[tuple[float, float]], look: looks.Look) -> None:
    """Scatter the pairs that a logarithmic axis can show."""
    shown = [(x, y) for x, y in pairs if x > 0 and y > 0 and math.isfinite(x * y)]
    axes.plot(
        [x for x, _ in shown], [y for _, y in shown], color=look.colour, marker=look.marker, linestyle="", markersize=5
    )


def _saturation(axes: "Axes") -> None:
    """Draw d equal directions, ½ d nβh/(nβh + γ): they leave the line at h = γ/nβ and end at d/2."""
    low, high = axes.get_xlim()
    for size in EQUAL:
        count = np.geomspace(low, min(high, 20 * size), 80)  # ½ d nβh/γ
        axes.plot(count, count / (1 + 2 * count / size), color=GREY, linestyle=":", linewidth=1, zorder=1)
        axes.annotate(
            f"{size} equal directions", (count[-1], size / 2), fontsize=7, color=GREY, ha="right", va="bottom"
        )
    axes.set_xlim(low, high)

"""Figures of a calibration: λ̂ over ε × nβ for each γ, and λ̂ against ε with the plateau.

Shapes: R values of nβ (rows), E step sizes.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rllc import intervals
from rllc.calibration.choice import Judgement
from rllc.calibration.finding import Finding
from rllc.calibration.grid import Setting
from rllc.report import style
from rllc.report.looks import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

X, Y, EDGE = np.array([-1, 1, 1, -1, -1]), np.array([-1, -1, 1, 1, -1]), 0.46  # a box around a cell

Judged = Mapping[Setting, Judgement]


def drawn(judged: Judged, chosen: Finding | None) -> "dict[str, Figure]":
    """Every figure by its file name; to be called inside `style.settings`."""
    return {"map": heat(judged, chosen), "plateau": ladders(judged, chosen)}


def heat(judged: Judged, chosen: Finding | None) -> "Figure":
    """Draw mean λ̂ over ε × nβ, a panel for each γ."""
    gammas, nbetas, lrs = _axes(judged)
    columns = max(len(gammas), 2)
    box = style.across(columns, 0.42 * len(nbetas) + 0.2, right=0.2)
    title = "Mean λ̂ (nats) at the last checkpoint. Hatched: not on the plateau; dotted: less signal; box: recommended"
    figure, panels = style.panels(len(gammas), columns, box, title=title)
    values = [judgement.finding.value for judgement in judged.values() if judgement.finding]
    top = max((value for value in values if np.isfinite(value)), default=1.0)
    for axes, gamma in zip(panels, gammas, strict=True):
        value_RE = np.full((len(nbetas), len(lrs)), np.nan)
        for r, nbeta in enumerate(nbetas):
            for e, lr in enumerate(lrs):
                judgement = judged[Setting(gamma, nbeta, lr)]
                value_RE[r, e] = judgement.finding.value if judgement.finding else np.nan
                _cell(axes, (e, r), value_RE[r, e], judgement)
                if chosen is not None and chosen.setting == Setting(gamma, nbeta, lr):
                    axes.plot(e + EDGE * X, r + EDGE * Y, color="black", lw=2.2, zorder=4)
        axes.imshow(value_RE, origin="lower", aspect="auto", cmap="Blues", vmin=0, vmax=1.5 * top)
        axes.set_title(f"γ {gamma:g}")
        axes.set_xticks(range(len(lrs)), [f"{lr:g}" for lr in lrs])
        axes.set_yticks(range(len(nbetas)), [f"{nbeta:g}" for nbeta in nbetas])
        axes.set_xlabel("step size ε")
        axes.set_ylabel("nβ")
        axes.grid(visible=False)
    return figure


def ladders(judged: Judged, chosen: Finding | None) -> "Figure":
    """Draw mean λ̂ against ε, a column for each γ and a row for each nβ; the plateau is shaded."""
    gammas, nbetas, lrs = _axes(judged)
    columns = max(len(gammas), 2)
    box = style.across(columns, 1.45)
    title = (
        "Mean λ̂ at the last checkpoint, 95 % intervals. Shaded: the plateau; open: not on it; grey: less signal; "
        "ringed: recommended"
    )
    figure, panels = style.panels(len(nbetas) * columns, columns, box, title=title)
    for n, axes in enumerate(panels):
        row, column = divmod(n, columns)
        if column >= len(gammas):
            axes.set_visible(False)
            continue
        pair = gammas[column], nbetas[row]
        _ladder(axes, {s: j for s, j in judged.items() if s.pair == pair}, chosen)
        axes.set_title(f"γ {pair[0]:g} · nβ {pair[1]:g}")
        axes.set_xscale("log", base=2)
        axes.set_xlim(min(lrs) / 1.5, max(lrs) * 1.5)
        axes.set_xticks(lrs, [f"{lr:g}" for lr in lrs])
        axes.set_xlabel("step size ε")
        axes.set_ylabel("λ̂ (nats)")
    return figure


def _ladder(axes: "Axes", ladder: Judged, chosen: Finding | None) -> None:
    """Draw one pair's λ̂ against ε."""
    on = [setting.lr for setting, judgement in ladder.items() if not judgement.fault]
    if on:
        axes.axvspan(min(on) / 1.2, max(on) * 1.2, color="#009E73", alpha=0.12, lw=0)
    for setting, judgement in ladder.items():
        finding = judgement.finding
        if finding is None or not np.isfinite(finding.value):
            continue
        half = finding.error * intervals.quantile(finding.freedom)
        colour, marker = ("#777777", "s") if judgement.weak else (COLOURS[0], "o")
        face = "white" if judgement.fault else colour
        axes.errorbar(setting.lr, finding.value, half, fmt=marker, color=colour, mfc=face, ms=5, capsize=2, lw=1.1)
        if chosen is not None and finding.setting == chosen.setting:
            axes.plot(setting.lr, finding.value, "o", ms=11, mfc="none", mec="black", mew=1.4)
    axes.margins(y=0.15)


def _cell(axes: "Axes", place: tuple[int, int], value: float, judgement: Judgement) -> None:
    """Write a cell's number, and hatch it where it is not on the plateau."""
    from matplotlib.patches import Rectangle

    e, r = place
    said = f"{value:.3g}" if np.isfinite(value) else "diverged" if judgement.finding else "not run"
    room = {"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
    axes.text(e, r, said, ha="center", va="center", fontsize=8, bbox=room, zorder=5)
    hatch = "" if not judgement.fault else "...." if judgement.weak else "////"
    looks: Any = {"facecolor": "none", "edgecolor": "#8A8A8A", "linewidth": 0, "zorder": 3}
    axes.add_patch(Rectangle((e - 0.5, r - 0.5), 1, 1, hatch=hatch, **looks))
    axes.plot(e + 0.5 * X, r + 0.5 * Y, color="white", lw=1.5, zorder=3.5)


def _axes(judged: Judged) -> tuple[list[float], list[float], list[float]]:
    """The values of γ, nβ and ε of the grid."""
    gammas, nbetas, lrs = zip(*((setting.gamma, setting.nbeta, setting.lr) for setting in judged), strict=True)
    return sorted(set(gammas)), sorted(set(nbetas)), sorted(set(lrs))

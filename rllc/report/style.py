"""How every figure looks: sizes, fonts, axes of training steps, and files with the same bytes for the same content."""

import functools
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rllc import atomic
from rllc.report.looks import Look
from rllc.trajectories import unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = NDArray[np.float64]

WIDTH = 11.0  # inches of a figure that fills the page
TITLE = 0.36  # inches above the panels
LEGEND = 0.24  # inches of a legend line above a panel
DPI = 150
MARKED = 40  # more steps than this are drawn without a marker at each
NAME = 28  # letters of a name that are shown
RC: Any = {
    "font.size": 9, "axes.titlesize": 9.5, "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "legend.fontsize": 8, "legend.frameon": False, "axes.titlelocation": "left",
    "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": "#E4E4E4", "grid.linewidth": 0.6, "axes.axisbelow": True,
    "lines.linewidth": 1.3, "font.family": "DejaVu Sans", "text.parse_math": False, "svg.fonttype": "none",
    "svg.hashsalt": "rllc", "figure.facecolor": "white", "savefig.facecolor": "white",
}  # fmt: skip


@dataclass(frozen=True)
class Box:
    """A panel and the space around it, in inches."""

    width: float
    height: float
    left: float = 0.72
    right: float = 0.25
    head: float = 0.34
    foot: float = 0.5


def across(columns: int, height: float, *, right: float = 0.25, left: float = 0.72, legend: bool = False) -> Box:
    """Give the panel of which `columns` fill the page; a legend needs one more line above."""
    width = WIDTH / columns - left - right
    return Box(width, height, left=left, right=right, head=0.34 + LEGEND * legend)


@contextmanager
def settings() -> Iterator[None]:
    """Hold the settings of all figures while they are drawn and written; restored afterwards."""
    import matplotlib

    with matplotlib.rc_context(RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from")  # a name in a script the font lacks
        yield


def panels(count: int, columns: int, box: Box, *, title: str) -> "tuple[Figure, list[Axes]]":
    """Make a figure of `count` equal panels in rows of `columns`, at places that depend on nothing but the boxes."""
    from matplotlib.figure import Figure

    rows = -(-count // columns)
    across_, down = box.left + box.width + box.right, box.head + box.height + box.foot
    width, height = columns * across_, TITLE + rows * down
    figure = Figure(figsize=(width, height))
    figure.text(0.1 / width, 1 - 0.1 / height, title, va="top", fontsize=10.5, fontweight="bold")
    made = []
    for n in range(count):
        row, column = divmod(n, columns)
        x, y = column * across_ + box.left, height - TITLE - (row + 1) * down + box.foot
        made.append(figure.add_axes((x / width, y / height, box.width / width, box.height / height)))
    return figure, made


def legend(axes: "Axes", entries: Sequence[tuple[str, Look]], box: Box, *, room: float = WIDTH) -> None:
    """Write a legend of lines on a line of its own above a panel's title, at most `room` inches wide."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=look.colour, linestyle=look.line, marker=look.marker, markersize=4) for _, look in entries
    ]
    above(axes, handles, [name for name, _ in entries], box, room=room)


def above(axes: "Axes", handles: Sequence[Any], names: Sequence[str], box: Box, *, room: float = WIDTH) -> None:
    """Write a legend on a line of its own above a panel's title, smaller where it were cut; nothing without names."""
    if names:
        where = (0, 1 + 0.22 / box.height)
        wanted = sum(0.56 + 0.068 * len(name) for name in names)  # inches at the usual size
        figure = axes.get_figure(root=True)
        assert figure is not None
        room = min(room, figure.get_figwidth() * (1 - axes.get_position().x0))
        size = RC["legend.fontsize"] * min(1, max(room / wanted, 0.55))
        spaces: Any = {
            "borderaxespad": 0,
            "borderpad": 0.2,
            "columnspacing": 1.4,
            "handlelength": 2.6,
            "fontsize": size,
        }
        axes.legend(handles, names, ncols=len(names), loc="lower left", bbox_to_anchor=where, **spaces)


def curve(axes: "Axes", x_T: Values, value_T: Values, half_T: Values, look: Look, *, label: str) -> None:
    """Draw a curve and its band; a hole is a gap in both, and a point between two holes stands alone with its bar."""
    known_T = np.isfinite(value_T)
    band_T = known_T & np.isfinite(half_T)
    alone_T = known_T & ~np.r_[False, known_T[:-1]] & ~np.r_[known_T[1:], False]
    axes.plot(
        x_T, value_T, color=look.colour, linestyle=look.line, label=label, marker=look.marker, markersize=2.6,
        markevery=None if len(x_T) <= MARKED else list(map(int, np.flatnonzero(alone_T))),
    )  # fmt: skip
    if band_T.any():
        low_T, high_T = value_T - half_T, value_T + half_T
        axes.fill_between(x_T, low_T, high_T, where=band_T.tolist(), color=look.colour, alpha=0.16, linewidth=0)
    for t in np.flatnonzero(alone_T & band_T):
        axes.plot([x_T[t]] * 2, [value_T[t] - half_T[t], value_T[t] + half_T[t]], color=look.colour, lw=1, alpha=0.5)


def limits(value: Values, half: Values) -> tuple[float, float]:
    """Give the range of an axis: all values, and their bands as far as they are not wider than all values."""
    known = value[np.isfinite(value)]
    if not known.size:
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    room = high - low or 0.5 * abs(high) or 1.0
    reach = np.where(np.isfinite(half), half, 0.0)
    bottom, top = max(low - room, float(np.nanmin(value - reach))), min(high + room, float(np.nanmax(value + reach)))
    pad = 0.05 * (top - bottom) or room
    return bottom - pad, top + pad


def shade(axes: "Axes", spans: Sequence[tuple[float, float]]) -> None:
    """Shade stages, from and to a training step."""
    for low, high in spans:
        axes.axvspan(low, high, color="#000000", alpha=0.05, lw=0, zorder=0, label="_stage")


def step_axis(axes: "Axes", steps: Sequence[float]) -> None:
    """Scale and name an axis of training steps: logarithmic, but linear from 0 to the first step after it."""
    later = [step for step in steps if step > 0]
    if not later:
        axes.set_xlabel("training step")
        axes.set_xlim(-1, 1)
        _ticks(axes, [0])
        return
    first, last = min(later), max(later)
    if len(later) == len(steps):
        axes.set_xscale("log")
        axes.set_xlabel("training step (log scale)")
        axes.set_xlim(first / 1.08, last * 1.08)
    else:
        axes.set_xscale("symlog", linthresh=first, linscale=0.5)
        axes.set_xlabel(f"training step (log scale; linear below {_short(first)})")
        axes.set_xlim(-0.12 * first, last * 1.08)
    _ticks(axes, [0.0] * (len(later) < len(steps)) + _ladder(first, last))


def even_axis(axes: "Axes", steps: Sequence[float]) -> None:
    """Scale and name an axis of training steps on which the points of resampled curves are even."""
    first = unit(steps)
    axes.set_xscale("function", functions=(lambda step: np.log1p(step / first), lambda x: first * np.expm1(x)))
    axes.set_xlabel(f"training step (even in log(1 + step/{_short(first)}))")
    axes.set_xlim(min(steps), max(steps))
    _ticks(axes, [0.0] * (min(steps) == 0) + _ladder(first, max(*steps, first)))


def _ticks(axes: "Axes", steps: Sequence[float]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.xaxis.set_major_locator(FixedLocator(list(steps)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: _short(step)))


def shown(name: str) -> str:
    """Give a name as it can be drawn: printable, not too long, and not hidden from legends by a leading underscore."""
    short = printable(name) if len(name) <= NAME else printable(name)[: NAME - 1] + "…"
    return f" {short}" if short.startswith("_") else short


def printable(text: str) -> str:
    """Replace what no font can draw."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def save(figure: "Figure", stem: Path) -> list[Path]:
    """Write stem.png and stem.svg, each whole; text in the SVG stays text."""
    kinds: dict[str, dict[str, Any]] = {
        "png": {"dpi": DPI, "metadata": {"Software": None}},
        "svg": {"metadata": {"Date": None, "Creator": None}},
    }
    paths = []
    for kind, options in kinds.items():
        paths.append(stem.with_name(f"{stem.name}.{kind}"))
        atomic.write(paths[-1], functools.partial(figure.savefig, format=kind, **options))
    return paths


def _ladder(first: float, last: float) -> list[float]:
    """Give round steps between two steps: 1, 2, 5, … or powers of ten where the range is long."""
    powers = range(int(np.floor(np.log10(first))), int(np.ceil(np.log10(last))) + 1)
    digits = (1, 2, 5) if np.log10(last / first) < 2.2 else (1,)
    inside = [digit * 10.0**power for power in powers for digit in digits]
    return [step for step in inside if first <= step <= last * 1.001] or [first]


def _short(step: float) -> str:
    return f"{step:g}" if step < 10_000 else f"{step / 1000:g}k"

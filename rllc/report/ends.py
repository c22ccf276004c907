"""Names at the ends of lines, moved apart so that they do not overlap.

Shape letter: N names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Values = NDArray[np.float64]

POINTS = 7.5  # font size
LEADING = 1.25  # distance of names in font sizes


@dataclass(frozen=True)
class End:
    """A name and the point (data coordinates) that it belongs to."""

    name: str
    x: float
    y: float
    colour: str


def spread(wanted_N: Sequence[float], gap: float, low: float, high: float) -> Values:
    """Move positions apart to distances of at least `gap`, between `low` and `high`, as little as possible.

    It is the least-squares solution that keeps the order, by isotonic regression of wanted − gap·rank (pooling of
    neighbours that would fall below each other); where they do not fit, the gap shrinks.
    """
    order = np.argsort(wanted_N, kind="stable")
    gap = min(gap, (high - low) / max(len(order) - 1, 1))
    offset_N = gap * np.arange(len(order))
    pools: list[tuple[float, int]] = []
    for value in np.asarray(wanted_N, dtype=np.float64)[order] - offset_N:
        mean, size = float(value), 1
        while pools and pools[-1][0] > mean:
            before, count = pools.pop()
            mean, size = (before * count + mean * size) / (count + size), count + size
        pools.append((mean, size))
    level_N = np.concatenate([np.full(size, mean) for mean, size in pools]) if pools else np.empty(0)
    moved_N = np.empty(len(order))
    moved_N[order] = np.clip(level_N, low, high - offset_N[-1] if len(order) else high) + offset_N
    return moved_N


def label(axes: "Axes", ends: Sequence[End], height: float) -> None:
    """Write the names to the right of a panel `height` inches high, each joined to its point by a thin line.

    The limits of the panel have to be set before.
    """
    low, high = axes.get_ylim()
    wanted_N = [(end.y - low) / (high - low) for end in ends]
    place_N = spread(wanted_N, POINTS * LEADING / 72 / height, 0.0, 1.0)
    size = min(POINTS, 72 * height / max(len(ends), 1) / LEADING)
    for end, place in zip(ends, place_N, strict=True):
        axes.annotate(
            end.name,
            xy=(end.x, end.y),
            xytext=(1.03, float(place)),
            textcoords="axes fraction",
            fontsize=size,
            color=end.colour,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-", "color": end.colour, "lw": 0.5, "alpha": 0.6,
                "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5),
            },
        )  # fmt: skip

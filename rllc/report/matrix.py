"""A matrix of an index between things, as colours with the numbers in them.

Shape letter: M things.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rllc.report.style import Values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUMBERS = 30  # things up to which the numbers are written into the cells
NAMED = 80  # things up to which each has its name


def draw(axes: "Axes", value_MM: Values, names: Sequence[str], *, low: float) -> None:
    """Draw a matrix whose values go from `low`, dark, to 1, bright; NaN is white."""
    place_M = np.arange(len(names))
    axes.pcolormesh(place_M, place_M, value_MM, cmap="cividis", vmin=low, vmax=1, shading="nearest", rasterized=True)
    if len(names) <= NUMBERS:
        for (i, j), value in np.ndenumerate(value_MM):
            bright = (value - low) / (1 - low) > 0.57
            text = "" if np.isnan(value) else f"{value:.2f}".replace("0.", ".").replace("-", "−")
            axes.text(j, i, "1" if text == "1.00" else text, ha="center", va="center",
                      fontsize=min(7.0, 110 / len(names)), color="black" if bright else "white")  # fmt: skip
    shown = place_M if len(names) <= NAMED else place_M[:0]
    size = min(7.0, 300 / max(len(names), 1))
    axes.set_xticks(shown, [names[m] for m in shown], rotation=90, fontsize=size)
    axes.set_yticks(shown, [names[m] for m in shown], fontsize=size)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.tick_params(length=0)

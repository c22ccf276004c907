"""An index of the primary clustering over the number of groups k, beside its null: a panel for each scope.

Shape letter: K numbers of groups.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rllc.report import style
from rllc.report.grouping import Groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3  # at most, of panels


def panels(groups: Groups, run: str, title: str) -> "tuple[Figure, dict[str, Axes], style.Box]":
    """Make a panel for each scope of a run, by its name."""
    scopes = groups.scopes(run)
    columns = max(2, min(len(scopes), COLUMNS))
    box = style.across(columns, 2.3, legend=True)
    figure, axes = style.panels(len(scopes), columns, box, title=f"{title} over k · run {style.shown(run)}")
    return figure, dict(zip(scopes, axes, strict=True)), box


def null(axes: "Axes", groups: Groups, index: str, *, run: str, scope: str) -> tuple[list[int], NDArray[np.float64]]:
    """Draw what curves without common structure give, and name the panel; all k, and the index at each."""
    way = (run, scope, *groups.primary)
    found = {int(one[4]): scores for one, scores in groups.scores[index].items() if one[:4] == way}
    ks = sorted(found)
    value_K, median_K, q95_K = np.array([found[k] for k in ks]).reshape(-1, 3).T
    axes.fill_between(ks, median_K, q95_K, color="#999999", alpha=0.3, lw=0, label="null up to 95 %")
    axes.plot(ks, median_K, color="#777777", ls="--", lw=1.2, label="null median")
    main, how = groups.chosen[run, scope]
    axes.set_title(f"{scope} · k = {main} ({how})")
    axes.set_xticks(ks)
    axes.set_xlabel("number of groups k")
    return ks, value_K

"""What the scripts of figures share: the sweep they are given, what it lacks, and where a figure goes."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rllc.mistake import Mistake
from rllc.report import ends, looks, source, style
from rllc.report.estimates import Curves
from rllc.report.source import Source
from rllc.scopes import HEAD

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Legend = Sequence[tuple[str, looks.Look]]


def read() -> Source:
    """Read the sweep named on the command line."""
    try:
        return source.read(Path(sys.argv[1]))
    except (Mistake, IndexError) as trouble:
        raise SystemExit(f"{trouble}\nusage: python {sys.argv[0]} sweeps/demo") from trouble


def lacks(what: str, remedy: str) -> SystemExit:
    """Say what the figure needs and the sweep has not; `make figures` goes on."""
    print(f"{Path(sys.argv[0]).stem}: not drawn, the sweep has no {what}; {remedy}")
    return SystemExit(0)


def metric(found: Source, name: str, run: str) -> Curves | None:
    """Give the curves of a metric of one run."""
    of_run = found.curves if name == found.metric else {**found.scores, **found.others}.get(name, {})
    return of_run.get(run)


def panels(
    count: int, title: str, *, columns: int = 2, height: float = 2.9, legend: Legend = ()
) -> "tuple[Figure, list[Axes]]":
    """Make panels in the style of the report, with a legend above the first; call it inside `style.settings`."""
    columns = min(columns, max(count, 1))
    box = style.across(columns, height, right=0.9, legend=bool(legend))
    figure, axes_N = style.panels(count, columns, box, title=title)
    style.legend(axes_N[0], legend, box)
    return figure, axes_N


def lines(axes: "Axes", curves: Curves, d: int, shown: dict[str, looks.Look], spans: list[tuple[float, float]]) -> None:
    """Draw some parts with their bands on one dataset, all other heads grey, and the stages."""
    steps_T = np.array(curves.steps, dtype=np.float64)
    for p, part in enumerate(curves.parts):
        if part not in shown and HEAD.match(part):
            axes.plot(steps_T, curves.value_PDT[p, d], color="#C4C4C4", lw=0.7, zorder=1)
    found = []
    for part, look in shown.items():
        p = curves.parts.index(part)
        style.curve(axes, steps_T, curves.value_PDT[p, d], curves.half_PDT[p, d], look, label=part)
        if np.isfinite(last := curves.value_PDT[p, d, -1]):
            found.append(ends.End(part, steps_T[-1], last, look.colour))
    style.step_axis(axes, curves.steps)
    style.shade(axes, spans)
    axes.set_ylim(axes.get_ylim())
    ends.label(axes, found, axes.get_position().height * axes.figure.get_figheight())


def by_layer(found: Source, run: str, title: str, shown: Callable[[list[str]], dict[str, looks.Look]]) -> "Figure":
    """Draw a panel for each layer and dataset: `shown` chooses among the parts of a layer."""
    curves = found.curves[run]
    places = [(layer, d) for layer in curves.layers() for d in range(len(curves.datasets))]
    figure, axes_N = panels(len(places), f"{title} · run {run}")
    for axes, (layer, d) in zip(axes_N, places, strict=True):
        lines(axes, curves, d, shown([curves.parts[p] for p in curves.layers()[layer]]), found.spans(run))
        axes.set_title(f"{layer} · {curves.datasets[d]}")
        axes.set_ylabel(found.symbol)
    return figure


def heads_of(found: Source, run: str, types: Iterable[str]) -> dict[str, looks.Look]:
    """Give the heads of some types, each with a look of its own."""
    inside = [part for part, kind in found.types(run).items() if kind in set(types)]
    return {part: looks.look(n) for n, part in enumerate(inside)}


def save(figure: "Figure", run: str) -> None:
    """Write PNG and SVG to the sweep's folder figures/, named after the script and the run."""
    folder = Path(sys.argv[1]) / "figures"
    folder.mkdir(exist_ok=True)
    for path in style.save(figure, folder / f"{Path(sys.argv[0]).stem}-{run}"):
        if path.suffix == ".png":
            print(path)

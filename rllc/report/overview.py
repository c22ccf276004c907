"""Figure of the curves of a few training runs side by side."""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from rllc.report import looks, style
from rllc.report.curves import SECTION, panel
from rllc.report.picture import Picture
from rllc.report.source import Source
from rllc.trajectories import natural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RUNS = 5  # at most
COLUMNS = 6  # at most


def pictures(source: Source) -> Iterator[Picture]:
    """Give the figure where there are two to RUNS runs and few enough layers and datasets."""
    if 1 < len(source.curves) <= RUNS and 0 < len(_columns(source)) <= COLUMNS:
        yield Picture(
            SECTION,
            "curves-overview",
            "All runs side by side",
            f"{source.symbol} against the training step; a row for each run, a column for each layer and dataset with "
            "one vertical axis for a layer, without bands. Colour and line: type of the head, since the same name "
            "means another head in another run; grey where the type is other or unknown.",
            lambda: overview(source),
        )


def overview(source: Source) -> "Figure":
    """Draw all runs, coloured by type."""
    columns, runs = _columns(source), list(source.curves.values())
    box = style.across(len(columns), 1.7, left=0.62, right=0.12, legend=True)
    figure, panels = style.panels(len(runs) * len(columns), len(columns), box, title="All runs side by side")
    limits = {layer: _limits(source, layer) for layer, _ in columns}
    for n, axes in enumerate(panels):
        curves, (layer, dataset) = runs[n // len(columns)], columns[n % len(columns)]
        inside, types = curves.layers().get(layer, ()), source.types(curves.run)
        if n % len(columns) == 0:
            style.legend(axes, looks.type_legend(curves.parts, types), box)
        if dataset not in curves.datasets or not inside:
            axes.set_axis_off()
            axes.set_title(f"{style.shown(curves.run)} · no {layer} · {style.shown(dataset)}", fontsize=8)
            continue
        bare = dataclasses.replace(curves, half_PDT=np.full_like(curves.half_PDT, np.nan))
        look_of = {part: looks.of_type(types.get(part, "other")) for part in curves.parts}
        panel(axes, bare, inside, curves.datasets.index(dataset), look_of)
        axes.set_xlabel("step (log scale)", fontsize=8)
        axes.set_ylim(limits[layer])
        axes.set_title(f"{style.shown(curves.run)} · {layer} · {style.shown(dataset)}", fontsize=8)
        axes.set_ylabel(source.symbol, fontsize=8)
    return figure


def _columns(source: Source) -> list[tuple[str, str]]:
    """Give each layer and dataset that some run has."""
    layers = sorted({layer for curves in source.curves.values() for layer in curves.layers()}, key=natural)
    datasets = sorted({dataset for curves in source.curves.values() for dataset in curves.datasets})
    return [(layer, dataset) for layer in layers for dataset in datasets]


def _limits(source: Source, layer: str) -> tuple[float, float]:
    """Give the range of a layer over all runs and datasets."""
    values = [curves.value_PDT[list(curves.layers().get(layer, ()))].ravel() for curves in source.curves.values()]
    value = np.concatenate(values)
    return style.limits(value, np.full_like(value, np.nan))

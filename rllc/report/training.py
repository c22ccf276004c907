"""Figure of the training loss and of the checkpoints at which something was estimated."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from rllc.report import ends, looks, style
from rllc.report.picture import Picture
from rllc.report.source import Source

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def pictures(source: Source) -> Iterator[Picture]:
    """Give the figure if training losses were recorded."""
    if source.training:
        yield Picture(
            "Training",
            "training-loss",
            "Training loss",
            "Mean training loss per token (nats) against the training step, one line for each run. Vertical marks "
            "are the checkpoints at which something was estimated.",
            lambda: loss(source),
        )


def loss(source: Source) -> "Figure":
    """Draw the loss of every run."""
    box = style.Box(style.WIDTH - 2.0, 2.9, right=1.28, head=0.12)
    figure, (axes,) = style.panels(1, 1, box, title="Training loss")
    steps = sorted({step for curve in _measured(source) for step in curve})
    found = []
    for n, (run, (step_T, loss_T)) in enumerate(source.training.items()):
        look = looks.look(n)
        axes.plot(
            step_T, loss_T, color=look.colour, linestyle=look.line, lw=1.1, label=run, marker="." * (step_T.size == 1)
        )
        known_T = np.flatnonzero(np.isfinite(loss_T))
        if known_T.size:
            found.append(ends.End(style.shown(run), step_T[known_T[-1]], loss_T[known_T[-1]], look.colour))
    for step in steps:
        axes.axvline(step, color="#999999", lw=0.7, ls=(0, (2, 2)), zorder=0)
    style.step_axis(axes, sorted({*steps, *(float(s) for step_T, _ in source.training.values() for s in step_T)}))
    axes.set_ylabel("loss (nats per token)")
    axes.grid(visible=False, axis="x")
    axes.set_ylim(axes.get_ylim())
    ends.label(axes, found, box.height)
    return figure


def _measured(source: Source) -> list[tuple[int, ...]]:
    of_scores = [curve for of_run in source.scores.values() for curve in of_run.values()]
    return [curve.steps for curve in [*source.curves.values(), *of_scores]]

"""Figures of the stages of training: the curves they are found in, and how sure each boundary is."""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from rllc import stages as finding
from rllc.measured import WHOLE
from rllc.report import looks, style
from rllc.report.picture import Picture, name
from rllc.report.source import Source

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def pictures(source: Source) -> Iterator[Picture]:
    """Give a figure for each run whose stages were given or looked for."""
    for run, found in source.stages.items():
        if found.origin == "nothing":
            continue
        caption = (
            f"Stages {found.origin}: where it changes least, against log(1 + step / first step above 0), between "
            f"two times of change. Line: end of a stage, with its step; orange: where {finding.COVERAGE[0]:.0%} to "
            f"{finding.COVERAGE[1]:.0%} of smoothed curves drawn within the errors have it; above, the share of draws "
            "that have it at all. Every second stage is shaded grey, here and in the figures over training."
        )
        title = f"Stages, run {run}"
        yield Picture("Training", name("stages", run), title, caption, functools.partial(stages, source, run))


def sentence(source: Source, run: str) -> str:
    """Say where the stages of a run end."""
    found = source.stages[run]
    if not found.boundaries:
        return "" if found.origin == "nothing" else f"Stages of run {run}: none could be told {found.origin}."
    ends = ", ".join(
        f"{one.step:.0f}" + (f" ({one.low:.0f} to {one.high:.0f})" if one.high > one.low else "")
        for one in found.boundaries
    )
    return f"Stages of run {run}, {found.origin}, end at step {ends}."


def stages(source: Source, run: str) -> "Figure":
    """Draw the loss, and λ̂ of the whole model where it was measured, with the boundaries."""
    curves, losses = source.curves[run], source.training.get(run)
    whole = WHOLE in curves.parts
    count = max(int(whole) + int(losses is not None), 1)
    box = style.across(count, 2.5, left=0.8)
    figure, panels = style.panels(count, count, box, title=f"Stages · run {style.shown(run)}")
    drawn = iter(panels)
    if whole:
        axes = next(drawn)
        for d, dataset in enumerate(curves.datasets):
            p, steps_T = curves.parts.index(WHOLE), np.array(curves.steps, dtype=np.float64)
            label = style.shown(dataset)
            style.curve(axes, steps_T, curves.value_PDT[p, d], curves.half_PDT[p, d], looks.look(d), label=label)
        axes.set_ylabel(f"{source.symbol} of the whole model")
        axes.legend(loc="lower right")
    if losses is not None:
        axes = next(drawn)
        at, mean, error = finding.binned(losses[0].tolist(), losses[1])
        axes.errorbar(at, mean, error, fmt=".", ms=3, color=looks.look(0).colour, lw=0.8, label="loss")
        axes.set_ylabel("training loss (nats per token)")
    for axes in panels:
        style.step_axis(axes, curves.steps)
        style.shade(axes, source.spans(run))
        for one in source.stages[run].boundaries:
            axes.axvspan(one.low, one.high, color="#D55E00", alpha=0.18, lw=0)
            axes.axvline(one.step, color="#D55E00", lw=1.1)
            axes.annotate(
                f"{one.step:.0f} · {one.share:.0%}", (one.step, 1.0), xycoords=("data", "axes fraction"), fontsize=7.5,
                xytext=(2, 3), textcoords="offset points", color="#D55E00",
            )  # fmt: skip
    return figure

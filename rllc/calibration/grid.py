"""The settings that are tried, and the cells of the plan that try them."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from rllc import bias, plan, planning
from rllc.config import Calibrate, Config
from rllc.legal import check_sampler
from rllc.mistake import Mistake, unknown
from rllc.models import parts
from rllc.plan import Cell
from rllc.planning import Checkpoint, Dataset
from rllc.task import Sampler

T = TypeVar("T")

LAYERS, OF_LAYER = 3, 2  # chosen where no parts are named
STEPS = 3
ROUNDING = 1e-9
LEAST = 8  # draws of a chain
WAIT = 1.0  # burn-in in relaxation times


@dataclass(frozen=True, order=True)
class Setting:
    """One point of the grid."""

    gamma: float
    nbeta: float
    lr: float

    @property
    def pair(self) -> tuple[float, float]:
        """What decides what is measured."""
        return self.gamma, self.nbeta

    @property
    def half(self) -> "Setting":
        """The same at half the step size."""
        return dataclasses.replace(self, lr=self.lr / 2)

    @property
    def relaxation(self) -> float:
        """Steps in which γ alone brings a chain back by a factor e, 2/(εγ)."""
        return 2 / (self.lr * self.gamma)

    def sampler(self, base: Sampler, chains: int, relaxations: float) -> Sampler:
        """The sweep's options with this setting, and chains that are as long for every ε and γ in relaxation times."""
        draws = max(LEAST, math.ceil(relaxations * self.relaxation / base.every))
        return dataclasses.replace(
            base, lr=self.lr, gamma=self.gamma, nbeta=self.nbeta, chains=chains, draws=draws,
            burn_in=math.ceil(WAIT * self.relaxation), budget=None, bias="reported",
        )  # fmt: skip

    def __str__(self) -> str:
        """As a person says it."""
        return f"ε {self.lr:g}, γ {self.gamma:g}, nβ {self.nbeta:g}"


def settings(calibrate: Calibrate, base: Sampler) -> tuple[list[Setting], dict[Setting, str]]:
    """Settings of the grid that are worth a chain, in order, and why others are not: γ alone is too stiff for their ε.

    Raises:
        Mistake: none is worth a chain.
    """
    every = sorted(
        Setting(gamma, nbeta, lr) for gamma in calibrate.gamma for nbeta in calibrate.nbeta for lr in calibrate.lr
    )
    samplers = {setting: setting.sampler(base, calibrate.chains, calibrate.relaxations) for setting in every}
    least = {setting: bias.step(sampler, 0.0) for setting, sampler in samplers.items()}
    cannot = {
        setting: f"step bias at least {share:.1%} by γ alone"
        for setting, share in least.items()
        if share > calibrate.tolerance * (1 + ROUNDING)
    }
    can = [setting for setting in every if setting not in cannot]
    if not can:
        least_lr = 4 * calibrate.tolerance / min(calibrate.gamma)
        raise Mistake(
            f"calibrate.lr: {calibrate.lr} have a step bias above {calibrate.tolerance:g} by γ alone; one of at most "
            f"4 tolerance/gamma = {least_lr:.3g} is needed."
        )
    for setting in can:
        check_sampler(samplers[setting])
    return can, cannot


def steps(config: Config, saved: Sequence[int]) -> list[int]:
    """The checkpoints that are tried, out of those of the sweep's first run.

    Raises:
        Mistake: a step is none of the sweep's.
    """
    for step in config.calibrate.steps or []:
        if step not in saved:
            raise unknown("calibrate.steps", step, saved)
    return config.calibrate.steps or spaced(sorted(saved), STEPS)


def chosen(config: Config, wanted: Sequence[str]) -> list[str]:
    """The parts that are tried, out of those of the sweep.

    Raises:
        Mistake: a part is none of the sweep's.
    """
    for part in config.calibrate.parts or []:
        if part not in wanted:
            raise unknown("calibrate.parts", part, wanted)
    if config.calibrate.parts:
        return config.calibrate.parts
    layers: dict[int, list[str]] = {}
    for part in wanted:
        layers.setdefault(parts.place(part)[0], []).append(part)
    return [part for layer in spaced(sorted(layers), LAYERS) for part in spaced(layers[layer], OF_LAYER)]


def cells(
    config: Config,
    checkpoints: Sequence[Checkpoint],
    datasets: Sequence[Dataset],
    tried: Iterable[Setting],
    relaxations: float,
) -> list[Cell]:
    """A cell for each setting, checkpoint, dataset and part; those that read the same things stand together."""
    found = []
    wanted = chosen(config, planning.parts_of(checkpoints[0].model, config.grid.parts))
    grid = dataclasses.replace(config.grid, parts=wanted, metrics=["llc"], seeds=config.grid.seeds[:1])
    for setting in tried:
        sampler = setting.sampler(config.sampler, config.calibrate.chains, relaxations)
        found += planning.cells(checkpoints, datasets, datasets[0], grid=grid, sampler=sampler)
    return sorted((_below(cell) for cell in found), key=_order)


def _below(cell: Cell) -> Cell:
    """The same cell for a folder inside the sweep's: workers take paths relative to the folder two above their own."""
    labels = str(Path("..", cell.labels)) if cell.labels else ""
    checkpoint, rows = Path("..", cell.checkpoint), Path("..", cell.rows)
    return dataclasses.replace(cell, checkpoint=str(checkpoint), rows=str(rows), labels=labels)


def _order(cell: Cell) -> tuple[object, ...]:
    sampler = cell.task.sampler
    assert sampler is not None
    return cell.task.step, cell.task.dataset, sampler.gamma, sampler.nbeta, sampler.lr, plan.order(cell)


def spaced(values: Sequence[T], count: int) -> list[T]:
    """At most `count` of some values, evenly spaced from the first to the last."""
    places = np.linspace(0, len(values) - 1, min(count, len(values))).round().astype(int)
    return [values[place] for place in places]

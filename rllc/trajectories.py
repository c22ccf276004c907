"""Curves of every part on every dataset over training, as arrays without holes.

Shape letters: P parts, D datasets, T training steps, C chains.
"""

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rllc import tables
from rllc.mistake import Mistake, unknown
from rllc.tables import Row

Fill = Literal["none", "interpolate"]
Values = NDArray[np.float64]
Cell = tuple[str, str, int]  # part, dataset, step

SHOWN = 10  # cells that a refusal names

TIDY = ("run", "metric", "part", "dataset", "step", "value", "error")


@dataclass(frozen=True)
class Trajectories:
    """One metric of one run.

    Attributes:
        run: name of the training run.
        metric: what was measured, as "llc".
        parts: names of the parts, in natural order.
        datasets: names of the token distributions, sorted.
        steps: training steps, ascending.
        value_PDT: the curves; always finite.
        error_PDT: their standard errors; NaN where unknown.
        filled: cells that were interpolated, as "L0H3/pile/100".
        chain_PDTC: means of the single chains, those of several seeds one after the other; None where they are not
            known, are not as many in each cell, or where cells were filled.
    """

    run: str
    metric: str
    parts: tuple[str, ...]
    datasets: tuple[str, ...]
    steps: tuple[int, ...]
    value_PDT: Values
    error_PDT: Values
    filled: tuple[str, ...] = ()
    chain_PDTC: Values | None = None


def natural(name: str) -> list[tuple[int, str]]:
    """Sort key that reads digits as numbers: L0H9 before L0H10."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d+)", name)]


def read(sweep: Path, *, metric: str = "llc", fill: Fill = "none") -> list[Trajectories]:
    """Read one metric of every run in a gathered sweep; see `read_table`."""
    path = sweep / "estimates.parquet"
    if not path.is_file():
        raise Mistake(f"{path}: there is no such file; gather the sweep first.")
    return read_table(path, metric=metric, fill=fill)


def read_table(path: Path, *, metric: str | None = None, fill: Fill = "none") -> list[Trajectories]:
    """Read one metric of every run in a long table (columns as in `rllc.tables.read`).

    Rows of one cell that differ in their seed are averaged, and their errors combined to √(Σ e²)/n; one diverged seed
    makes the cell a hole. With `fill` "interpolate", holes between two known steps are filled linearly along `axis`.
    Without `metric`, "llc" is taken if it is there, else the only metric of the table.

    Raises:
        Mistake: there are holes, cells that appear twice with different numbers, or fewer than two steps.
    """
    rows = tables.read(path)
    found = sorted({row.metric for row in rows})
    wanted = metric or (found[0] if len(found) == 1 else "llc")
    if wanted not in found:
        raise unknown(f"{path}: metric", wanted, found)
    of_run = defaultdict(list)
    for row in rows:
        if row.metric == wanted:
            of_run[row.run].append(row)
    return [_curves(path, of_run[run], fill) for run in sorted(of_run, key=natural)]


def tidy(curves: Iterable[Trajectories]) -> Iterator[tuple[str, str, str, str, int, float, float]]:
    """Give the curves as rows of the columns TIDY, one a cell."""
    for curve in curves:
        for p, d, t in np.ndindex(*curve.value_PDT.shape):
            yield (
                *(curve.run, curve.metric, curve.parts[p], curve.datasets[d], curve.steps[t]),
                *(float(curve.value_PDT[p, d, t]), float(curve.error_PDT[p, d, t])),
            )


def _curves(path: Path, rows: list[Row], fill: Fill) -> Trajectories:
    """Build the arrays of one run and refuse what is not complete."""
    run, metric = rows[0].run, rows[0].metric
    parts = tuple(sorted({row.part for row in rows}, key=natural))
    datasets = tuple(sorted({row.dataset for row in rows}))
    steps = tuple(sorted({row.step for row in rows}))
    if len(steps) < 2:
        raise Mistake(f"{path}: run {run} has only step {steps[0]}, but a curve needs two steps or more.")
    value_PDT = np.full((len(parts), len(datasets), len(steps)), np.nan)
    error_PDT = value_PDT.copy()
    cells = _cells(path, rows)
    for p, d, t in np.ndindex(*value_PDT.shape):
        seeds = cells.get((parts[p], datasets[d], steps[t]), [])
        if seeds:
            value_PDT[p, d, t] = sum(row.value for row in seeds) / len(seeds)
            error_PDT[p, d, t] = math.sqrt(sum(row.error**2 for row in seeds)) / len(seeds)
    holes = np.argwhere(np.isnan(value_PDT))
    if fill == "interpolate":
        _interpolate(steps, value_PDT, error_PDT)
    left = [(parts[p], datasets[d], steps[t]) for p, d, t in np.argwhere(np.isnan(value_PDT))]
    if left:
        named = [_name(cell) + (" (no number)" if cell in cells else " (missing)") for cell in left]
        raise Mistake(_holes(path, run, metric, named, fill))
    filled = tuple(_name((parts[p], datasets[d], steps[t])) for p, d, t in holes)
    chain_PDTC = None if filled else _chains(cells, (parts, datasets, steps))
    return Trajectories(run, metric, parts, datasets, steps, value_PDT, error_PDT, filled, chain_PDTC)


def _chains(
    cells: dict[Cell, list[Row]], axes: tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]
) -> Values | None:
    """Arrange the means of the chains, if each cell has as many, and more than one."""
    means = [[mean for row in cells[cell] for mean in row.chains] for cell in itertools.product(*axes)]
    if len(sizes := {len(mean_C) for mean_C in means}) != 1 or sizes <= {0, 1} or not np.isfinite(means).all():
        return None
    return np.array(means, dtype=np.float64).reshape(*map(len, axes), -1)


def _cells(path: Path, rows: list[Row]) -> dict[Cell, list[Row]]:
    """Collect the seeds of every cell; of equal rows one is kept, rows that disagree are refused."""
    of_cell: dict[Cell, dict[str, Row]] = defaultdict(dict)
    for row in rows:
        cell = (row.part, row.dataset, row.step)
        first = of_cell[cell].setdefault(row.seed, row)
        if not (first.value == row.value or (math.isnan(first.value) and math.isnan(row.value))):
            raise Mistake(
                f"{path}: {first.place} and {row.place} both give {row.metric} of {_name(cell)} in run {row.run}, as "
                f"{first.value:g} and {row.value:g}; keep one, or tell them apart in a column seed."
            )
    return {cell: [seeds[seed] for seed in sorted(seeds)] for cell, seeds in of_cell.items()}


def unit(steps: Sequence[float]) -> float:
    """The first step above 0: the unit of the log-like axis; 1 where there is none."""
    return float(min((step for step in steps if step > 0), default=1))


def axis(steps: Sequence[float]) -> Values:
    """The log-like axis of training steps, x = log(1 + step/unit).

    It has a place for step 0, does not depend on how steps are counted, and leaves no long empty way before the first
    checkpoint, as log(step + 1) does.
    """
    return np.asarray(np.log1p(np.asarray(steps, dtype=np.float64) / unit(steps)))


def _interpolate(steps: tuple[int, ...], value_PDT: Values, error_PDT: Values) -> None:
    """Fill, in place, holes between two known steps, linearly along `axis`; errors as of the weighted sum."""
    x_T = axis(steps)
    for p, d in np.ndindex(*value_PDT.shape[:2]):
        known = np.flatnonzero(np.isfinite(value_PDT[p, d]))
        for left, right in itertools.pairwise(known):
            for t in range(left + 1, right):
                weight = (x_T[t] - x_T[left]) / (x_T[right] - x_T[left])
                value_PDT[p, d, t] = (1 - weight) * value_PDT[p, d, left] + weight * value_PDT[p, d, right]
                error_PDT[p, d, t] = math.hypot((1 - weight) * error_PDT[p, d, left], weight * error_PDT[p, d, right])


def _holes(path: Path, run: str, metric: str, named: list[str], fill: Fill) -> str:
    """One sentence on the cells that have no number."""
    shown = ", ".join(named[:SHOWN]) + (", …" if len(named) > SHOWN else "")
    remedy = {
        "none": "measure them, or set cluster.fill=interpolate to fill gaps inside curves",
        "interpolate": "interpolation fills only gaps between two known steps, so measure them",
    }
    count = f"{len(named)} cell has" if len(named) == 1 else f"{len(named)} cells have"
    return f"{path}: {count} no {metric} in run {run}: {shown}; {remedy[fill]}."


def _name(cell: Cell) -> str:
    return "/".join(str(piece) for piece in cell)

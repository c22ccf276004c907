"""Whether a task fits into the time limit of a job."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from rllc import cost, store
from rllc.config import Slurm
from rllc.cost import Kind, Rate
from rllc.plan import Cell


def seconds(time: str) -> float:
    """A time limit as Slurm takes it: minutes, minutes:seconds, h:mm:ss, d-hours, d-hours:mm or d-hours:mm:ss."""
    days, dash, rest = time.rpartition("-")
    fields = [int(field) for field in rest.split(":")]
    units = (3600, 60, 1) if dash or len(fields) == 3 else (60, 1)
    return 86400.0 * int(days or 0) + sum(unit * field for unit, field in zip(units, fields, strict=False))


def measured(sweep: Path, cells: Sequence[Cell]) -> dict[Kind, Rate]:
    """Rates of the kinds of tasks of a sweep that have a result, wherever that was made."""
    spent = {key: line["seconds"] for key, line in store.index(sweep).items()}
    seen: dict[Kind, list[tuple[float, float]]] = defaultdict(list)
    for cell in cells:
        if spent.get(cell.task.key) is not None:
            seen[cost.kind(cell)].append((cell.cost, spent[cell.task.key]))
    return {kind: cost.fit(pairs) for kind, pairs in seen.items()}


def warning(cells: Sequence[Cell], launch: Slurm, rates: Mapping[Kind, Rate]) -> str:
    """What to say where the longest task takes longer than its job may; else nothing."""
    known = [(rate.fixed + rate.per_flop * cell.cost, cell) for cell in cells if (rate := rates.get(cost.kind(cell)))]
    if launch.time is None or not known:
        return ""
    longest, cell = max(known, key=lambda pair: pair[0])
    usable = seconds(launch.time) - launch.signal_seconds
    if longest <= usable:
        return ""
    return (
        f"launch.time: {launch.time} leaves {max(usable, 0):.0f} s before the signal of launch.signal_seconds "
        f"{launch.signal_seconds}, but {cell.task.metric} of {cell.task.part} on {cell.task.dataset} is estimated to "
        f"take {longest:.0f} s; such tasks will not end."
    )

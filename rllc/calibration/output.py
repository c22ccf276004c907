"""What a calibration leaves: tables, figures, a sampler that Hydra can load, and the reasons for it."""

import csv
import dataclasses
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rllc import atomic, cost, launch, probe, runs, sweep
from rllc.calibration import choice, figures, reasons
from rllc.calibration.choice import Judgement
from rllc.calibration.finding import Finding
from rllc.calibration.grid import Setting
from rllc.config import Config
from rllc.report import style
from rllc.task import Sampler

Judged = Mapping[Setting, Judgement]

MEDIANS = ("stein", "bias_step", "bias_step_most", "bias_burn_in", "localised", "rhat")
CELL = ("stein", "stiff", "bias_step", "bias_step_most", "bias_burn_in", "ess")


def write(folder: Path, config: Config, judged: Judged, chosen: Finding | None) -> int:
    """Write everything into the folder and tell the reasons; 0 where something is recommended, else 1."""
    table(folder / "table.csv", [_row(setting, judgement) for setting, judgement in judged.items()])
    found = [judgement.finding for judgement in judged.values() if judgement.finding]
    table(folder / "cells.csv", [row for finding in found for row in _cells(finding)])
    file = folder / "sampler" / "calibrated.yaml"
    told = reasons.sentences(judged, chosen, config)
    if chosen is None:
        file.unlink(missing_ok=True)
    else:
        sampler = choice.sized(chosen, config.sampler, reasons.asked(chosen, config))
        told += prices(config, chosen)
        atomic.write_text(file, _yaml(sampler, told[0]))
        told.append(
            "Use it, beside the overrides of this command but those of sampler: "
            f"rllc sweep --config-dir {folder} sampler=calibrated name={config.name}-calibrated"
        )
    atomic.write_text(folder / "reasons.txt", "".join(f"{line}\n" for line in told))
    with style.settings():
        for stem, figure in figures.drawn(judged, chosen).items():
            style.save(figure, folder / stem)
    print("\n".join(told))
    print(f"calibrate: tables, figures and reasons are in {folder}")
    return int(chosen is None)


def prices(config: Config, chosen: Finding) -> list[str]:
    """A line for each asked error: chains, draws and hours of the whole sweep."""
    errors = sorted({*config.calibrate.errors, reasons.asked(chosen, config)}, reverse=True)
    samplers = {error: choice.sized(chosen, config.sampler, error) for error in errors}
    steps = runs.steps(config)
    plans = {
        error: sweep.outline(dataclasses.replace(config, sampler=sampler), steps) for error, sampler in samplers.items()
    }
    every = [cell for cells in plans.values() for cell in cells]
    pool = max(dataset.pool for dataset in config.data.values())
    rates = probe.rates(
        every, root=Path(config.root), model=runs.model(config), pool=pool, threads=launch.here(config.launch).threads
    )
    workers = launch.workers(launch.here(config.launch))
    lines = [f"Price of an error, for the whole sweep with {workers} workers:"]
    for error, sampler in samplers.items():
        seconds = cost.estimate(plans[error], rates).seconds / workers
        reached = choice.expected(chosen, sampler)
        lines.append(
            f"  {error:.3g} nats: {sampler.chains} chains × {sampler.draws} draws, which give {reached:.3g}, about "
            f"{cost.hours(seconds)}"
        )
    return lines


def table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows as CSV, whole or not at all."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    atomic.write_text(path, text.getvalue())


def _row(setting: Setting, judgement: Judgement) -> dict[str, Any]:
    """A setting as a row; what was not measured is empty."""
    row = {
        **dataclasses.asdict(setting), "plateau": not judgement.fault, "weak": judgement.weak, "fault": judgement.fault,
    }  # fmt: skip
    finding, bias = judgement.finding, judgement.bias
    if finding is None:
        return row
    names = ("value", "error", "spread", "signal", "noise", "autocorrelation")
    row |= {name: getattr(finding, name) for name in names}
    row |= {name: finding.median(name) for name in MEDIANS}
    row |= {"stiff_most": finding.most("stiff"), "stein_most": finding.most("stein")}
    row |= {"measured_bias": bias and bias.value, "measured_bias_error": bias and bias.error}
    row |= {health: finding.count(health) for health in ("ok", "suspect", "short", "diverged")}
    sampler = finding.sampler
    steps = len(finding.estimates) * sampler.chains * sampler.steps
    row |= {"chains": sampler.chains, "draws": sampler.draws, "burn_in": sampler.burn_in, "chain_steps": steps}
    return row | {"seconds": sum(each.seconds for each in finding.estimates)}


def _cells(finding: Finding) -> list[dict[str, Any]]:
    """The places of a setting as rows."""
    return [
        {
            **dataclasses.asdict(finding.setting), "step": each.task.step, "dataset": each.task.dataset,
            "part": each.task.part, "value": each.value, "error": each.error, "health": each.health,
            "reason": each.reason, **{name: each.stats.get(name) for name in CELL}, "seconds": each.seconds,
        }
        for each in finding.estimates
    ]  # fmt: skip


def _yaml(sampler: Sampler, why: str) -> str:
    import yaml

    return f"# {why}\n{yaml.safe_dump(dataclasses.asdict(sampler), sort_keys=False)}"

"""Which sampler settings resolve the heads: error, spread between heads and cost, on the cells of a finished sweep.

    python bench/sampler_search.py sweeps/demo --steps 0 600 1600 --try chains=8,batch=2,draws=100,burn_in=10 …

For each setting, over all parts at each step: the median standard error, the standard deviation between parts over that
error (with and without the most extreme part), the largest Stein ratio and R-hat, and core seconds of the whole sweep.
"""

import argparse
import dataclasses
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch

from rllc import plan
from rllc.metrics import llc
from rllc.pools import each


def setting(text, base):
    """The sampler with the changes "name=value,name=value"."""
    changes = dict(word.split("=") for word in text.split(","))
    return dataclasses.replace(base, **{name: type(getattr(base, name))(value) for name, value in changes.items()})


def measure(sweep, cells, sampler):
    """Estimates of the cells under another sampler, by (step, dataset), and the core seconds spent."""
    changed = [
        dataclasses.replace(cell, task=dataclasses.replace(cell.task, sampler=sampler))
        for cell in sorted(cells, key=plan.order)
    ]
    found, began = defaultdict(list), time.process_time()
    for cell, pool in each(sweep.parent.parent, changed):
        found[cell.task.step, cell.task.dataset].append(llc.measure(cell.task, pool))
    return found, time.process_time() - began


def main():
    """Print one line for each setting, step and dataset."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--steps", type=int, nargs="+")
    parser.add_argument("--try", nargs="+", dest="settings", required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sweep = options.sweep.resolve()
    cells = [cell for cell in plan.read(sweep) if cell.task.metric == "llc"]
    steps = options.steps or [max(cell.task.step for cell in cells)]
    chosen = [cell for cell in cells if cell.task.step in steps]
    print("setting | step dataset | error | spread/error | without the extreme | Stein | R-hat | not ok | core s")
    for text in options.settings:
        found, seconds = measure(sweep, chosen, setting(text, cells[0].task.sampler))
        for (step, dataset), estimates in sorted(found.items()):
            value = np.array([estimate.value for estimate in estimates])
            error = np.median([estimate.error for estimate in estimates])
            rest = np.delete(value, np.argmax(abs(value - np.median(value))))
            print(
                f"{text} | {step} {dataset} | {error:.4f} | "
                f"{value.std(ddof=1) / error:.1f} | {rest.std(ddof=1) / error:.1f} | "
                f"{max(e.stats['stein'] for e in estimates):.2f} | {max(e.stats['rhat'] for e in estimates):.2f} | "
                f"{sum(e.health != 'ok' for e in estimates)} | {seconds * len(cells) / len(chosen):.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

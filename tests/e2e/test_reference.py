import csv
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rllc.metrics import llc
from rllc.models.restriction import Pool
from rllc.task import Sampler, Task
from rllc.zoo import folder

sys.path.append(str(Path(__file__).parents[1] / "fixtures" / "tiny_attn"))
import tiny_attn

SAMPLER = Sampler(lr=1e-3, nbeta=30.0, gamma=200.0, chains=4, draws=40, burn_in=0, batch=8)
KINDS = {"code": "source", "prose": "prose"}  # the reference's code is whole source files


def known(step):
    """Value and error of each cell of an independent script: {(dataset, part): (value, error)}."""
    with (tiny_attn.FOLDER.parent / "tiny_reference" / "rllc.csv").open() as file:
        return {
            (row["dataset"], row["part"]): (float(row["value"]), float(row["error"]))
            for row in csv.DictReader(file)
            if int(row["step"]) == step
        }


def measured(step, cells):
    """The same cells by rllc, on other rows of the same text."""
    model, weights = folder.load(tiny_attn.path(step))
    pools = {
        dataset: Pool(weights, model, torch.from_numpy(tiny_attn.rows(kind)[:1024]), chains=4, batch=8)
        for dataset, kind in KINDS.items()
    }
    tasks = {cell: Task("tiny", "", step, f"{cell[1]}.?", cell[0], "", "llc", 0, SAMPLER) for cell in cells}
    return {cell: llc.measure(task, pools[task.dataset]) for cell, task in tasks.items()}


@pytest.mark.slow
@pytest.mark.parametrize("step", tiny_attn.STEPS)
def test_curves_of_an_independent_script_come_out(step):
    """The script moved the four matrices of a head (`L0H3.?`), so the biases stay where they are here, too."""
    reference = known(step)
    found = measured(step, reference)
    assert len(found) == 32
    value, error = np.array(list(reference.values())).T
    ours, our_error = np.array([(found[cell].value, found[cell].error) for cell in reference]).T
    away, noise = np.abs(ours - value), np.hypot(error, our_error)
    agree = away <= np.maximum(0.15 * np.abs(value), 3 * noise)
    assert agree.mean() >= 0.9, [cell for cell, good in zip(reference, agree, strict=True) if not good]
    if step:  # at step 0 all are 0 within their errors
        assert np.median(ours / value) == pytest.approx(1, abs=0.1)
        assert np.corrcoef(ours, value)[0, 1] > 0.95

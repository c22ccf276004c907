import csv
import functools
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rllc.metrics import llc
from rllc.models.pool import Pool
from rllc.task import Sampler, Task
from rllc.zoo import folder

sys.path.append(str(Path(__file__).parents[1] / "fixtures" / "tiny_attn"))
import tiny_attn

pytestmark = pytest.mark.slow

SAMPLER = Sampler(lr=1e-3, nbeta=30.0, gamma=200.0, chains=4, draws=40, burn_in=0, batch=8)
KINDS = {"code": "source", "prose": "prose"}  # the reference's code is whole source files


@functools.cache
def cells(step):
    """Values and errors of an independent script, then those of rllc on other rows of the same text: four arrays (32).

    The script's values are those of a head's four matrices without their biases (`L0H3.?`): with them every head comes
    out about a tenth higher.
    """
    with (tiny_attn.FOLDER.parent / "tiny_reference" / "rllc.csv").open() as file:
        known = [row for row in csv.DictReader(file) if int(row["step"]) == step]
    model, weights = folder.load(tiny_attn.path(step))
    pools = {
        dataset: Pool(weights, model, torch.from_numpy(tiny_attn.rows(kind)[:1024]), chains=4, batch=8)
        for dataset, kind in KINDS.items()
    }
    found = [
        llc.measure(Task("tiny", "", step, f"{row['part']}.?", row["dataset"], "", "llc", 0, SAMPLER), pool)
        for row in known
        for pool in [pools[row["dataset"]]]
    ]
    columns = [[float(row["value"]) for row in known], [float(row["error"]) for row in known]]
    return (*np.array(columns), np.array([each.value for each in found]), np.array([each.error for each in found]))


@pytest.mark.parametrize("step", tiny_attn.STEPS[1:])
def test_heads_of_a_trained_model_have_the_known_values(step):
    value, _, ours, _ = cells(step)
    assert len(value) == 32
    assert np.median(ours / value) == pytest.approx(1, abs=0.1)
    assert np.corrcoef(ours, value)[0, 1] > 0.9  # errors of 0.035 against a spread of 0.13 or more


def test_heads_of_a_fresh_model_have_none():
    _, _, ours, error = cells(0)
    assert np.abs(ours).max() < 0.1
    assert np.mean(np.abs(ours) < 3 * error) >= 0.8


def test_nine_cells_in_ten_agree():
    value, error, ours, our_error = np.concatenate([cells(step) for step in tiny_attn.STEPS], axis=1)
    agree = np.abs(ours - value) <= np.maximum(0.15 * np.abs(value), 3 * np.hypot(error, our_error))
    print(f"{agree.sum()} of {agree.size} cells agree")
    assert agree.size == 96
    assert agree.mean() >= 0.9

import math
import time

import numpy as np
import pytest
import torch

from rllc.metrics import scored
from rllc.task import Task

TASK = Task("r", "w", 0, "L0H0", "d", "x", "icl", 0, None)


def test_the_mean_of_rows_has_their_standard_error():
    got = scored.rows(TASK, torch.tensor([1.0, 2.0, 6.0]), began=time.perf_counter())
    assert (got.value, got.error) == (3.0, pytest.approx(math.sqrt(7 / 3)))
    assert math.isnan(scored.rows(TASK, torch.tensor([1.0]), began=0.0).error)


def test_probes_keep_their_values_and_degrees_of_freedom():
    got = scored.probes(TASK, np.array([1.0, 2.0, 6.0]), began=0.0, stats={"weights": 4.0})
    assert got.freedom == 2
    assert got.chains_C.tolist() == [1, 2, 6]
    assert got.stats["weights"] == 4


def test_what_is_not_finite_is_diverged():
    got = scored.rows(TASK, torch.tensor([1.0, math.inf]), began=0.0)
    assert got.health == "diverged"
    assert math.isnan(got.value)
    assert math.isnan(got.error)


def test_the_jackknife_of_a_mean_is_its_standard_error_and_of_a_ratio_the_delta_method():
    rng = np.random.default_rng(0)
    x = rng.normal(5, 1, 16)
    value, error = scored.without(lambda kept: float(x[kept].mean()), 16)
    assert (value, error) == (pytest.approx(x.mean()), pytest.approx(x.std(ddof=1) / 4))
    many_x, many_y = rng.normal(5, 1, 8000), rng.normal(2, 0.1, 8000)
    spread = [
        scored.without(lambda kept, x=x, y=y: float(x[kept].mean() / y[kept].mean()), 500)
        for x, y in zip(many_x.reshape(16, 500), many_y.reshape(16, 500), strict=True)
    ]
    ratios, errors = zip(*spread, strict=True)
    delta = math.hypot(1 / 5, 0.1 / 2) * 2.5 / math.sqrt(500)
    assert np.mean(errors) == pytest.approx(delta, rel=0.15)
    assert np.std(ratios) == pytest.approx(delta, rel=0.5)

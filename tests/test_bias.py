import dataclasses
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from rllc import bias
from rllc.task import Estimate, Sampler, Task

sys.path.append(str(Path(__file__).parent / "backends"))
from quadratic import Law

PAPER = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=4, draws=200, burn_in=0, batch=8)
EIGENVALUES = np.array([0.70, 3.91, 6.63, 9.62, 11.72, 21.82])


def changed(**options):
    return dataclasses.replace(PAPER, **options)


@pytest.mark.parametrize("curvature", [0.0, 6.0, 40.0])
@pytest.mark.parametrize("changes", [{}, {"burn_in": 7}, {"every": 3, "draws": 40}, {"gamma": 50.0, "lr": 2e-3}])
def test_one_direction_has_the_biases_of_its_law(curvature, changes):
    sampler = changed(**changes)
    law = Law.of(np.diag([curvature + 1e-9]), sampler)
    assert 1 + bias.burn_in(sampler, curvature) == pytest.approx(law.value / law.stationary, rel=1e-6)
    assert 1 - bias.step(sampler, curvature) == pytest.approx(law.exact / law.stationary, rel=1e-6)
    shares = {"bias_step": bias.step(sampler, curvature), "bias_burn_in": bias.burn_in(sampler, curvature)}
    assert law.value * bias.correction(law.value, shares) == pytest.approx(law.exact, rel=1e-6)


def test_burn_in_bias_is_the_closed_form_of_a_flat_direction():
    # 1 − (1 − ρ^{2T})/(T (1 − ρ²)) kept of the stationary value: at the paper's settings a loss of 2.6 %
    rho = 0.9
    expected = -(1 - rho**400) / (200 * (1 - rho**2))
    assert bias.burn_in(PAPER, 0.0) == pytest.approx(expected)
    assert bias.burn_in(PAPER, 0.0) == pytest.approx(-0.026, abs=5e-4)
    assert bias.burn_in(changed(gamma=0.0), 0.0) == -1


def test_warm_up_relaxes_with_the_steps_that_were_taken():
    sampler = changed(warmup=4, draws=6)
    rates = 1e-3 * np.array([0.25, 0.5, 0.75, 1, 1])
    expected = np.concatenate([[1], np.cumprod((1 - rates * (200 + 30 * 5) / 2) ** 2)])
    assert bias.transient(sampler, 5.0) == pytest.approx(expected)
    assert bias.transient(changed(warmup=4, draws=2, burn_in=1, every=3), 5.0) == pytest.approx(expected[[1, 4]])


@pytest.mark.parametrize("changes", [{}, {"gamma": 50.0}, {"lr": 2.5e-4, "every": 4}, {"nbeta": 100.0, "gamma": 20.0}])
def test_the_true_step_bias_lies_between_those_of_the_mean_and_the_largest_curvature(changes):
    sampler = changed(burn_in=300, draws=1000, **changes)
    law = Law.of(np.diag(EIGENVALUES), sampler)
    precision = sampler.nbeta * EIGENVALUES + sampler.gamma
    variance = 1 / (precision * (1 - sampler.lr * precision / 4))
    mean = (EIGENVALUES * variance).sum() / variance.sum()
    true = 1 - law.exact / law.stationary
    assert bias.step(sampler, 0.0) < bias.step(sampler, mean) < true < bias.step(sampler, EIGENVALUES.max())


@pytest.mark.parametrize("changes", [{}, {"gamma": 50.0}, {"burn_in": 5}, {"every": 2, "draws": 60}])
def test_the_mean_curvature_gives_the_burn_in_bias_or_up_to_half_as_much_again(changes):
    sampler = changed(**changes)
    law = Law.of(np.diag(EIGENVALUES), sampler)
    precision = sampler.nbeta * EIGENVALUES + sampler.gamma
    variance = 1 / (precision * (1 - sampler.lr * precision / 4))
    mean = (EIGENVALUES * variance).sum() / variance.sum()
    assert 1 < bias.burn_in(sampler, mean) / (law.value / law.stationary - 1) < 1.5


def test_nothing_is_taken_from_a_negative_value_nor_made_up_for_a_short_chain():
    shares = {"bias_step": 0.1, "bias_burn_in": -0.9}
    assert bias.correction(-1.0, shares) == 1
    assert bias.correction(1.0, shares) == pytest.approx(0.9 / 0.5)


def test_other_samplers_have_other_laws():
    sampler = changed(method="rmsprop")
    assert math.isnan(bias.step(sampler, 1.0))
    assert math.isnan(bias.burn_in(sampler, 1.0))


def estimate(value, error, chains, sampler):
    task = Task("r", "w", 0, "L0H0", "d", "x", "llc", 0, sampler)
    none = np.empty((0, 0), np.float32)
    return Estimate(task, value, error, np.empty(chains), none, "ok", "", {"freedom": chains - 1}, 1.0, "c")


@pytest.mark.parametrize("lr", [1e-3, 2.5e-4])
def test_two_step_sizes_measure_the_step_bias_to_first_order(lr):
    full, half = changed(lr=lr, burn_in=1000), changed(lr=lr / 2, burn_in=1000)
    laws = [Law.of(np.diag(EIGENVALUES), sampler) for sampler in (full, half)]
    found, error, freedom = bias.measured(
        estimate(laws[0].value, 0.03, 4, full), estimate(laws[1].value, 0.04, 4, half)
    )  # fmt: skip
    true = laws[0].value - laws[0].exact
    rest = lr * (30 * EIGENVALUES.max() + 200) / 4  # a/2 of the stiffest direction: what second order is, relative
    assert abs(found - true) < rest * true
    assert error == pytest.approx(0.1)
    assert 3 < freedom < 6

import math

import numpy as np
import pytest

from rllc import diagnostics
from rllc.task import Sampler

PAPER = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=4, draws=200, burn_in=0, batch=8)


def changed(**options):
    return Sampler(**{**PAPER.__dict__, **options})


def autoregressive(rho, chains=4, draws=4000, seed=0):
    rng = np.random.default_rng(seed)
    trace = np.empty((chains, draws))
    trace[:, 0] = rng.standard_normal(chains)
    for t in range(1, draws):
        trace[:, t] = rho * trace[:, t - 1] + math.sqrt(1 - rho**2) * rng.standard_normal(chains)
    return trace


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_effective_draws_of_an_autoregressive_chain(rho):
    expected = 16_000 * (1 - rho) / (1 + rho)
    assert diagnostics.effective_draws(autoregressive(rho)) == pytest.approx(expected, rel=0.12)


def test_rhat_is_one_for_one_target_and_the_closed_form_for_apart_means():
    trace = autoregressive(0.0)
    assert diagnostics.rhat(trace) == pytest.approx(1, abs=0.01)
    apart = trace + np.array([[-1.0], [-1.0], [1.0], [1.0]])
    # within variance 1, variance of the eight half-chain means 8/7: R-hat² → 1 + 8/7
    assert diagnostics.rhat(apart) == pytest.approx(math.sqrt(1 + 8 / 7), rel=0.02)
    assert math.isnan(diagnostics.rhat(np.zeros((4, 100))))
    assert math.isnan(diagnostics.rhat(trace[:, :3]))


def test_drift_is_the_difference_of_halves_with_students_p():
    steps = np.concatenate([np.zeros(50), np.ones(50)])
    mean, p = diagnostics.drift(steps + np.array([[0.1], [0.2], [0.3]]) * steps)
    assert mean == pytest.approx(1.2)
    assert p == pytest.approx(
        2 * 0.5 * (1 - 20.7846 / math.sqrt(20.7846**2 + 2)), rel=1e-3
    )  # t with 2 degrees of freedom
    assert math.isnan(diagnostics.drift(steps[None])[1])


def test_burn_in_bias_is_the_closed_form_of_a_flat_direction():
    # 1 − (1 − ρ^{2T})/(T (1 − ρ²)) kept of the stationary value: at the paper's settings a loss of 2.6 %
    rho = 0.9
    expected = -(1 - rho**400) / (200 * (1 - rho**2))
    assert diagnostics.burn_in_bias(PAPER) == pytest.approx(expected)
    assert diagnostics.burn_in_bias(PAPER) == pytest.approx(-0.026, abs=5e-4)
    assert diagnostics.burn_in_bias(changed(burn_in=50)) == pytest.approx(expected * rho**100, rel=1e-6)
    assert diagnostics.burn_in_bias(changed(gamma=0.0)) == -1


GOOD = autoregressive(0.5, draws=200)


@pytest.mark.parametrize(
    ("trace", "sampler", "stein", "state", "word"),
    [
        (GOOD, PAPER, 1.05, "ok", ""),
        (np.where(np.arange(200) == 7, np.nan, GOOD), PAPER, 1.05, "diverged", "finite"),
        (np.where(np.arange(200) == 7, np.inf, GOOD), PAPER, 1.05, "diverged", "finite"),
        (GOOD, PAPER, math.nan, "diverged", "finite"),
        (GOOD[:, :20], changed(draws=20), 1.05, "short", "2.0 relaxation times"),
        (GOOD[:, :20], changed(draws=20, every=2), 1.05, "ok", ""),
        (GOOD, PAPER, 1.4, "suspect", "Stein ratio 1.40"),
        (GOOD + np.array([[-3.0], [-3.0], [3.0], [3.0]]), PAPER, 1.05, "suspect", "R-hat"),
        (1 + 0.01 * GOOD + np.linspace(0, 4, 200) ** 3 / 64, PAPER, 1.05, "suspect", "R-hat"),
        (0.02 * GOOD - 1, PAPER, 1.05, "suspect", "below 0 for sure"),
        (5 + 3 * GOOD + 3.2 * (np.arange(200) >= 100), PAPER, 1.05, "suspect", "drifts"),
    ],
)
def test_health(trace, sampler, stein, state, word):
    health = diagnostics.health(trace, sampler, stein=stein)
    assert health.state == state
    assert word in health.reason
    assert bool(health.reason) == (state != "ok")

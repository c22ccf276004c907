import math

import numpy as np
import pytest
from scipy import stats

from rllc import convergence


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
    assert convergence.effective_draws(autoregressive(rho)) == pytest.approx(expected, rel=0.12)


def test_rhat_is_one_for_one_target_and_the_closed_form_for_apart_means():
    trace = autoregressive(0.0)
    assert convergence.rhat(trace) == pytest.approx(1, abs=0.01)
    apart = trace + np.array([[-1.0], [-1.0], [1.0], [1.0]])
    # within variance 1, variance of the eight half-chain means 8/7: R-hat² → 1 + 8/7
    assert convergence.rhat(apart) == pytest.approx(math.sqrt(1 + 8 / 7), rel=0.02)
    assert math.isnan(convergence.rhat(np.zeros((4, 100))))
    assert math.isnan(convergence.rhat(trace[:, :3]))


def test_change_is_the_difference_of_windows_with_students_p():
    steps = np.concatenate([np.zeros(50), np.ones(50)])
    rise = steps + np.array([[0.1], [0.2], [0.3]]) * steps
    mean, p = convergence.change(rise, 0.5, 0.5)
    assert mean == pytest.approx(1.2)
    assert p == pytest.approx(stats.ttest_1samp([1.1, 1.2, 1.3], 0).pvalue, rel=1e-9)
    assert convergence.change(rise + np.arange(100), 0.1, 0.5)[0] == pytest.approx(1.2 + 74.5 - 4.5)
    assert math.isnan(convergence.change(steps[None], 0.5, 0.5)[1])
    assert convergence.change(rise[:, :9], 0.1, 0.5)[0] == 0.0


@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_gewekes_score_of_long_stationary_chains_is_standard_normal(rho):
    z_C = np.concatenate([convergence.geweke(autoregressive(rho, 8, 2000, seed)) for seed in range(40)])
    assert stats.kstest(z_C, "norm").pvalue > 0.01
    assert z_C.std() == pytest.approx(1, abs=0.15)  # standard error of a spread of 320 scores: 0.04


def test_gewekes_score_finds_the_one_chain_that_starts_elsewhere():
    trace = autoregressive(0.8, 4, 2000)
    trace[2, :200] += 4
    z_C = convergence.geweke(trace)
    # the mean of 200 draws with autocorrelation time 9 has the standard error √(9/200) = 0.21
    assert z_C[2] == pytest.approx(4 / math.hypot(math.sqrt(9 / 200), math.sqrt(9 / 1000)), rel=0.25)
    assert (abs(np.delete(z_C, 2)) < 3).all()
    assert convergence.geweke(trace[:, :19]).size == convergence.geweke(np.ones((4, 100))).size == 0


@pytest.mark.parametrize(("statistic", "tail"), [(0.11888, 0.5), (0.34730, 0.1), (0.46136, 0.05), (0.74346, 0.01)])
def test_cramer_von_mises_tail_has_the_tabulated_points(statistic, tail):
    assert convergence.cramer_von_mises(statistic) == pytest.approx(tail, rel=1e-3)


def test_cramer_von_mises_tail_is_that_of_simulated_bridges():
    walk = np.random.default_rng(0).standard_normal((4000, 400)).cumsum(1) / 20
    bridge = walk - walk[:, -1:] * np.arange(1, 401) / 400
    tails = [convergence.cramer_von_mises(value) for value in (bridge**2).mean(1)]
    assert stats.kstest(tails, "uniform").pvalue > 0.01
    assert convergence.cramer_von_mises(0.0) == 1
    assert 0 <= convergence.cramer_von_mises(1e-3) <= 1


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_without_cuts_one_stationary_chain_in_twenty_fails(monkeypatch, rho):
    monkeypatch.setattr(convergence, "DISCARDED", (0.0,))
    passed = np.concatenate([convergence.stationary(autoregressive(rho, 8, 1000, seed)) for seed in range(60)])
    assert passed.mean() == pytest.approx(0.95, abs=0.03)  # three standard errors of 480 chains


def test_stationary_chains_pass_and_drifting_ones_do_not():
    passed = np.concatenate([convergence.stationary(autoregressive(0.8, 4, 500, seed)) for seed in range(25)])
    assert passed.mean() > 0.97
    trace = autoregressive(0.0, 4, 500)
    trace[1] += np.linspace(0, 3, 500)
    assert convergence.stationary(trace).tolist() == [True, False, True, True]
    trace = autoregressive(0.0, 4, 500)
    trace[:, :200] += 3  # forgotten after the cut of 40 %
    assert convergence.stationary(trace).all()
    assert convergence.stationary(np.ones((4, 100))).size == 0

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats
from test_convergence import autoregressive

from rllc import diagnostics, intervals
from rllc.backends.contract import Trace
from rllc.task import Budget, Sampler

PAPER = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=4, draws=200, burn_in=0, batch=8)
SIZE = 1000
GOOD = 1 + autoregressive(0.5, draws=200)
LONG = 5 + autoregressive(0.5, draws=1000)


def changed(**options):
    return dataclasses.replace(PAPER, **options)


def trace_of(excess_CS, *, along=0.05, away=4.9, curvature=1.0, accept=None):
    """A part of 1000 weights that moves as the localiser alone would let it, but for what is given."""
    ones = np.ones_like(excess_CS)
    end = np.zeros((len(excess_CS), 1))
    return Trace(excess_CS, ones, along * ones, away * ones, end, SIZE, accept, curvature)


def judged(excess_CS, sampler=PAPER, **moves):
    kept_CS = excess_CS[:, sampler.burn_in :: sampler.every]
    numbers = diagnostics.numbers(trace_of(excess_CS, **moves), kept_CS, sampler, norm=10.0)
    error, numbers["freedom"] = intervals.standard_error(sampler.nbeta * kept_CS)
    value = sampler.nbeta * kept_CS.mean()
    return diagnostics.health(numbers, sampler, value=value, error=error, chains=len(excess_CS))


def test_numbers_are_those_of_their_formulas():
    found = diagnostics.numbers(trace_of(GOOD), GOOD, PAPER, norm=10.0)
    assert found["weights"] == 1000
    assert found["stein"] == pytest.approx((30 * 0.05 + 200 * 4.9) / 1000)
    assert found["localised"] == pytest.approx(980 / 981.5)
    assert found["away"] == pytest.approx(math.sqrt(4.9 / 1000))
    assert found["moved"] == pytest.approx(math.sqrt(4.9) / 10)
    assert found["stiff"] == pytest.approx(1e-3 * 230 / 2)
    assert found["bias_step"] == pytest.approx(1e-3 * (200 + 30 * 0.05 / 4.9) / 4)
    assert found["bias_step_most"] == pytest.approx(1e-3 * 230 / 4)
    assert found["bias_burn_in"] == pytest.approx(-0.026, abs=5e-4)
    assert found["drift"] == pytest.approx(30 * (GOOD[:, 100:].mean() - GOOD[:, :100].mean()))
    assert math.isnan(found["accept"])


def test_settling_is_what_no_relaxation_from_the_start_explains():
    # the slowest, ρ = 0.9 − 1.5e-7 a step, explains a rise of up to 0.26 of the mean 1 from the first tenth
    missing = ((0.9 - 1e-3 * 30 * 0.05 / 4.9 / 2) ** (2 * np.arange(20))).mean()
    level = GOOD[:, 100:].mean()
    for rise in (-0.2, 0.1, 0.2, 0.5):
        trace = np.where(np.arange(200) < 20, GOOD - GOOD[:, :20].mean() + level - rise, GOOD)
        found = diagnostics.numbers(trace_of(trace), trace, PAPER, norm=10.0)
        expected = rise if rise < 0 else max(rise - trace.mean() * missing, 0.0)
        assert found["settling"] == pytest.approx(30 * expected, abs=1e-6)


def test_acceptance_is_the_mean_over_moves_after_burn_in():
    log_CS = np.log([[1.0, 0.5, 2.0, 0.25], [1.0, 1.0, 1.0, 1.0]])
    short = GOOD[:2, :4]
    for burn_in, expected in ((0, 4.75 / 6), (2, 3.25 / 4)):
        sampler = changed(chains=2, draws=4 - burn_in, burn_in=burn_in)
        found = diagnostics.numbers(trace_of(short, accept=log_CS), short[:, burn_in:], sampler, norm=1.0)
        assert found["accept"] == pytest.approx(expected)


APART = np.array([[-3.0], [-3.0], [3.0], [3.0]])
LATE = np.arange(200) >= 100


@pytest.mark.parametrize(
    ("trace", "sampler", "moves", "state", "word"),
    [
        (GOOD, PAPER, {}, "ok", ""),
        (GOOD[:, :20], changed(draws=20), {}, "short", "2.0 relaxation times"),
        (GOOD[:, :40], changed(draws=20, every=2), {}, "ok", ""),
        (GOOD[:1], changed(chains=1), {}, "ok", ""),
        (GOOD[:1, :190], changed(chains=1, draws=190), {}, "short", "19.0 relaxation times"),
        (GOOD, PAPER, {"along": 10.0, "away": 5.5}, "suspect", "Stein ratio 1.40"),
        (GOOD, PAPER, {"curvature": 62.0}, "suspect", "too large: ε p/2 1.03"),
        (GOOD, PAPER, {"curvature": 130.0}, "suspect", "unstable: ε p/2 2.05"),
        (GOOD, PAPER, {"curvature": math.nan}, "ok", ""),
        (GOOD, PAPER, {"along": -6.0, "away": 6.5}, "suspect", "pushes the chains away: ‖w − w*‖² is 1.30 d/γ"),
        (GOOD + APART, PAPER, {}, "suspect", "R-hat"),
        (GOOD + np.linspace(-2, 2, 200) * np.array([[1], [1], [-1], [-1]]), PAPER, {}, "suspect", "R-hat"),
        (LONG + np.linspace(0, 1.2, 1000), changed(draws=1000), {}, "suspect", "25% of the chains are stationary"),
        (0.02 * (GOOD - 1) - 1, PAPER, {}, "suspect", "below 0 for sure"),
        (5 + 3 * (GOOD - 1) + 3.2 * LATE, PAPER, {}, "suspect", "from half to half"),
        (5 + (GOOD - 1) - 4 * (np.arange(200) < 10), PAPER, {}, "ok", ""),  # that much is the start at w*
        (5 + (GOOD - 1) / 2 + 4 * (np.arange(200) < 10), PAPER, {}, "suspect", "from the first tenth to the last half"),
    ],
)
def test_health(trace, sampler, moves, state, word):
    health = judged(trace, sampler, **moves)
    assert (health.state, word in health.reason) == (state, True), health
    assert bool(health.reason) == (state != "ok")


def test_without_numbers_it_diverged():
    health = diagnostics.health({}, PAPER, value=math.nan, error=math.nan, chains=4)
    assert health.state == "diverged"
    assert "finite" in health.reason


def test_a_budget_that_was_missed_is_short_unless_worse_is_known():
    sampler = changed(budget=Budget(0.0, 1e-3, 4))
    assert judged(GOOD, changed(budget=Budget(0.0, 100.0, 4))).state == "ok"
    assert judged(GOOD, sampler).state == "short"
    assert "0.001 was asked for" in judged(GOOD, sampler).reason
    assert judged(GOOD + APART, sampler).state == "suspect"


@pytest.mark.parametrize("chains", [2, 4, 8])
def test_a_value_counts_as_negative_at_the_level_of_three_normal_errors(chains):
    """Threshold t with tail 0.00135: 235 errors for two chains, 9.2 for four, 4.5 for eight."""
    border = stats.t.isf(0.00135, chains - 1)
    numbers = diagnostics.numbers(trace_of(GOOD), GOOD, PAPER, norm=1.0) | {"freedom": chains - 1.0}
    for share, state in ((1.001, "suspect"), (0.999, "ok")):
        found = diagnostics.health(numbers, PAPER, value=-share * border * 1e9, error=1e9, chains=chains)
        assert found.state == state


def test_rhat_limit_is_what_chance_allows():
    # τ = 1.81/0.19 at ρ = 0.9, 7 degrees of freedom for the means of eight half chains
    expected = math.sqrt(1 + 1.81 / 0.19 / 100 * stats.chi2.isf(1e-4, 7) / 7)
    assert diagnostics.rhat_limit(PAPER, 4) == pytest.approx(expected)
    assert diagnostics.rhat_limit(changed(draws=10_000), 4) == 1.1
    assert diagnostics.rhat_limit(changed(gamma=0.0), 4) == diagnostics.rhat_limit(changed(method="sgnht"), 4) == 1.5


@pytest.mark.slow
@pytest.mark.parametrize(("chains", "draws"), [(1, 200), (2, 200), (4, 40), (4, 200), (8, 40), (8, 200)])
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.81])
def test_stationary_chains_seldom_raise_an_alarm(chains, draws, rho):
    """AR(1) losses up to the autocorrelation 0.81 of the softest direction at the paper's ε and γ: at most 1 %."""
    sampler = changed(chains=chains, draws=draws)
    losses = autoregressive(rho, 400 * chains, draws, seed=draws).reshape(400, chains, draws)
    health = [judged(3 + loss_CS, sampler) for loss_CS in losses]
    assert np.mean([found.state == "suspect" for found in health]) <= 0.01

import math

import numpy as np
import pytest
from scipy import stats

from rllc import intervals


@pytest.mark.parametrize("freedom", [1, 3, 7.5, 199])
@pytest.mark.parametrize("coverage", [0.5, 0.95, 0.9973])
def test_quantile_is_students(freedom, coverage):
    assert intervals.quantile(freedom, coverage) == pytest.approx(stats.t.ppf((1 + coverage) / 2, freedom), rel=1e-9)


def test_quantile_without_chains_is_the_normals_and_without_error_none():
    assert intervals.quantile(math.inf) == pytest.approx(1.959964, abs=1e-6)
    assert math.isnan(intervals.quantile(math.nan))


def test_freedom_of_a_sum_lies_between_the_least_and_the_sum():
    assert intervals.freedom([2.0, 2.0], [3, 3]) == pytest.approx(6)  # equal parts add up
    assert intervals.freedom([2.0, 0.0], [3, 511]) == pytest.approx(3)  # what is exact takes no part
    assert intervals.freedom([1e-200, 1e-200], [3, 3]) == pytest.approx(6)
    assert intervals.freedom([1.0, 2.0], [3, 100]) == pytest.approx(25 / (1 / 3 + 16 / 100))
    assert intervals.freedom([0.0, 0.0], [3, 5]) == 8
    assert math.isnan(intervals.freedom([math.nan, 1.0], [math.nan, 5]))


def test_intervals_of_a_sum_of_two_errors_hold_the_truth():
    """A mean of 4 plus a mean of 30 numbers nine times as spread: 95 % by Satterthwaite, less by the normal."""
    rng = np.random.default_rng(0)
    few, many = rng.standard_normal((20_000, 4)), 3 * rng.standard_normal((20_000, 30))
    errors = [each.std(1, ddof=1) / math.sqrt(each.shape[1]) for each in (few, many)]
    off, error = abs(few.mean(1) + many.mean(1)), np.hypot(*errors)
    freedom = [intervals.freedom(pair, [3, 29]) for pair in zip(*errors, strict=True)]
    assert (off <= error * stats.t.ppf(0.975, freedom)).mean() == pytest.approx(0.95, abs=0.005)
    assert (off <= error * 1.96).mean() < 0.942


def test_error_of_several_chains_is_that_of_their_means():
    draw_CS = np.array([[1.0, 3.0], [4.0, 6.0], [0.0, 0.0]])
    error, freedom = intervals.standard_error(draw_CS)
    assert error == pytest.approx(np.std([2, 5, 0], ddof=1) / math.sqrt(3))
    assert freedom == 2


def test_error_of_one_chain_is_that_of_five_pieces():
    draw_S = np.r_[99.0, np.repeat([1.0, 2, 3, 4, 10], 4)]  # what fills no piece is left out, from the front
    error, freedom = intervals.standard_error(draw_S[None])
    assert error == pytest.approx(np.std([1, 2, 3, 4, 10], ddof=1) / math.sqrt(5))
    assert freedom == 4
    assert all(math.isnan(each) for each in intervals.standard_error(draw_S[None, :9]))


@pytest.mark.parametrize(("draws", "least"), [(200, 0.92), (1000, 0.94)])
def test_intervals_of_one_correlated_chain_hold_the_truth(draws, least):
    """A loss of six directions that all forget with ρ = 0.9 a step: 20 and 100 relaxation times."""
    rng, rho, chains = np.random.default_rng(1), 0.9, 2000
    loss_CS, x_CD = np.empty((chains, draws)), rng.standard_normal((chains, 6))
    for t in range(draws):
        loss_CS[:, t] = (x_CD**2).sum(1)
        x_CD = rho * x_CD + math.sqrt(1 - rho**2) * rng.standard_normal(x_CD.shape)
    found = [(loss_S.mean(), *intervals.standard_error(loss_S[None])) for loss_S in loss_CS]
    held = np.mean([abs(mean - 6) <= error * intervals.quantile(freedom) for mean, error, freedom in found])
    assert least < held < 0.96

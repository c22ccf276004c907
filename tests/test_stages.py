import numpy as np
import pytest

from rllc import stages, trajectories

STEPS = [0, *range(100, 1000, 100), *range(1000, 10_000, 400), *range(10_000, 50_001, 2000)]


def rise(x, at, width):
    return 1 / (1 + np.exp(-(x - at) / width))


def test_a_plateau_between_two_rises_is_a_boundary_and_the_interval_holds_it():
    x_T = trajectories.axis(STEPS)
    truth_T = 50 * rise(x_T, 1.5, 0.25) + 50 * rise(x_T, 4.5, 0.25)
    middle = 100 * np.expm1(3.0)
    inside = 0
    for seed in range(5):
        error_T = np.full(len(x_T), 1.0)
        value_T = truth_T + error_T * np.random.default_rng(seed).normal(size=len(x_T))
        (found,) = stages.find(STEPS, value_T, error_T)
        assert found.share > 0.9
        assert 0.6 * middle < found.step < 1.6 * middle
        inside += found.low <= middle <= found.high
    assert inside >= 4


def test_a_peak_and_a_dip_are_critical_points():
    x_T = trajectories.axis(STEPS)
    value_T = 170 + 10 * np.sin(2 * np.pi * x_T / x_T[-1])
    found = stages.find(STEPS, value_T, np.full(len(x_T), 0.1))
    wanted = 100 * np.expm1(x_T[-1] * np.array([0.25, 0.75]))
    assert [one.step for one in found] == pytest.approx(wanted, rel=0.05)
    assert all(one.low <= step <= one.high for one, step in zip(found, wanted, strict=True))


def test_larger_errors_give_wider_intervals_or_no_boundary():
    x_T = trajectories.axis(STEPS)
    truth_T = 170 + 10 * np.sin(2 * np.pi * x_T / x_T[-1])
    widths = []
    for size in (0.2, 2.0):
        error_T = np.full(len(x_T), size)
        value_T = truth_T + error_T * np.random.default_rng(0).normal(size=len(x_T))
        found = stages.find(STEPS, value_T, error_T)
        widths.append(max(np.log(one.high / one.low) for one in found) if found else np.inf)
    assert widths[1] > 2 * widths[0]


def test_a_straight_rise_and_noise_alone_have_no_stages():
    x_T = trajectories.axis(STEPS)
    error_T = np.full(len(x_T), 1.0)
    assert stages.find(STEPS, 20 * x_T + np.random.default_rng(1).normal(size=len(x_T)), error_T) == []
    noise_T = np.random.default_rng(0).normal(size=len(x_T))
    assert stages.find(STEPS, noise_T, error_T) == []


@pytest.mark.parametrize("value", [np.full(30, 3.0), np.r_[np.full(25, np.nan), np.arange(5.0)]])
def test_constant_and_short_curves_have_none(value):
    assert stages.find(range(30), value, np.zeros(30)) == []


def test_a_noisy_loss_is_averaged_with_its_error():
    rng = np.random.default_rng(0)
    steps = list(range(2000))
    at, mean, error = stages.binned(steps, 3 + rng.normal(size=2000), bins=20)
    assert len(at) == len(mean) <= 20
    assert np.abs((mean - 3)[error > 0] / error[error > 0]).max() < 4.5
    assert error[-1] == pytest.approx(1 / np.sqrt(np.sum(np.array(steps) > at[-2] + 1)), rel=0.5)
    assert at == sorted(at)


def test_spans_fill_the_range_and_ignore_what_is_outside():
    assert stages.spans([900, 100, 5000], [0, 50, 2000]) == [(0, 100), (100, 900), (900, 2000)]
    assert stages.spans([], [0, 10]) == [(0, 10)]

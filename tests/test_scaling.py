import numpy as np
import pytest

from rllc import scaling

NAN_112 = np.full((1, 1, 2), np.nan)


def test_resampling_is_exact_on_functions_linear_in_log_step():
    steps = [0, 1, 2, 10, 100, 101, 5000]
    line_T = 3 - 2 * np.log1p(steps)
    value_PDT = np.stack([[line_T, -line_T], [2 * line_T, 0 * line_T]])
    even_PDT = scaling.resample(steps, value_PDT)
    expected_T = 3 - 2 * np.linspace(0, np.log(5001), 7)
    assert np.allclose(even_PDT[0], [expected_T, -expected_T], atol=1e-12)
    assert np.allclose(even_PDT[1], [2 * expected_T, 0 * expected_T], atol=1e-12)


def test_resampling_does_not_depend_on_the_unit_of_steps():
    value_PDT = np.random.default_rng(0).normal(size=(2, 2, 5))
    plain, hundred = (scaling.resample([0, unit, 2 * unit, 9 * unit, 40 * unit], value_PDT) for unit in (1, 100))
    assert np.allclose(plain, hundred, atol=1e-12)
    assert np.allclose(scaling.even([0, 100, 1500]), [0, np.log(4), np.log(16)])


def test_resampling_leaves_an_even_grid_alone():
    value_PDT = np.random.default_rng(0).normal(size=(2, 2, 5))
    assert np.allclose(scaling.resample([0, 1, 3, 7, 15], value_PDT), value_PDT, atol=1e-12)


def test_global_puts_datasets_on_one_footing_and_keeps_levels():
    value_PDT = np.array([[[1.0, 2.0], [10.0, 20.0]], [[3.0, 4.0], [30.0, 40.0]]])
    scaled_PDT = scaling.scale(value_PDT, 0 * value_PDT, "global")
    assert np.allclose(scaled_PDT[:, 0], scaled_PDT[:, 1])
    assert np.allclose(scaled_PDT[:, 0], np.array([[1, 2], [3, 4]]) / np.std([1, 2, 3, 4]))


def test_standardize_and_minmax_act_on_a_part_as_a_whole():
    value_PDT = np.array([[[1.0, 3.0], [5.0, 7.0]]])
    assert np.allclose(scaling.scale(value_PDT, 0 * value_PDT, "standardize"), (value_PDT - 4) / np.sqrt(5))
    assert np.allclose(scaling.scale(value_PDT, 0 * value_PDT, "minmax"), (value_PDT - 1) / 6)
    assert np.array_equal(scaling.scale(value_PDT, 0 * value_PDT, "none"), value_PDT)


def test_standardize_divides_by_no_less_than_the_error():
    value_PDT = np.array([[[-0.1, 0.1]], [[-3.0, 3.0]]])
    error_PDT = np.array([[[0.5, np.nan]], [[0.5, 0.5]]])
    assert np.allclose(scaling.scale(value_PDT, error_PDT, "standardize"), [[[-0.2, 0.2]], [[-1, 1]]])


@pytest.mark.parametrize("how", ["global", "standardize", "minmax"])
def test_a_constant_curve_stays_finite(how):
    assert np.isfinite(scaling.scale(np.full((1, 1, 2), 3.0), NAN_112, how)).all()


def test_znormalise_gives_each_curve_mean_0_and_deviation_1():
    value_PDT = np.random.default_rng(0).normal(2, 3, size=(3, 2, 9))
    value_PDT[0, 0] = 7
    z_PDT = scaling.znormalise(value_PDT)
    assert np.allclose(z_PDT.mean(axis=2), 0, atol=1e-12)
    assert np.allclose(z_PDT.std(axis=2).ravel()[1:], 1)
    assert np.array_equal(z_PDT[0, 0], np.zeros(9))

"""The largest curvature, where the Hessian is known."""

import math

import numpy as np
import pytest
from quadratic import rotated

from rllc.backends import stiffness


def largest(hessian, slope=0.0, *, lr=1e-3, dtype=np.float64):
    start = np.linspace(-1, 1, len(hessian)).astype(dtype)
    return stiffness.largest(lambda w: (hessian @ (w - start) + slope).astype(dtype), start, lr)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_it_is_found_exactly_among_as_many_as_there_are_directions(dtype):
    hessian = rotated([2.0] * 20 + [5.0] * 20 + [30.0])
    assert stiffness.DIRECTIONS == 3
    assert largest(hessian, dtype=dtype) == pytest.approx(30, rel=1e-9 if dtype == np.float64 else 1e-3)


@pytest.mark.parametrize("slope", [0.0, np.linspace(-1, 1, 50)])
def test_it_is_found_from_below_among_many(slope):
    found = largest(rotated(np.geomspace(0.01, 40, 50)), slope)
    assert 0.8 * 40 < found <= 40 * (1 + 1e-9)


def test_few_directions_a_flat_loss_and_no_step():
    assert largest(np.diag([3.0, 3.0, 3.0])) == pytest.approx(3)  # the first direction spans the Krylov space
    assert largest(np.diag([3.0, 7.0, 7.0])) == pytest.approx(7)
    assert largest(np.zeros((3, 3))) == 0
    assert math.isnan(largest(np.eye(3), lr=0.0))
    assert math.isnan(largest(np.diag([math.inf, 1.0, 1.0])))

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from rllc import laws
from rllc.laws import Coefficient


def known(value, multiplicity=1):
    return Coefficient(Fraction(value), multiplicity)


def test_two_matrices_are_a_deep_network_of_depth_two():
    shapes = [
        (m, h, n, r) for m, h, n in itertools.product(range(1, 8), repeat=3) for r in range(min(m, h, n) + 1)
    ]  # fmt: skip
    assert len(shapes) == 1127
    for m, h, n, r in shapes:
        assert laws.reduced_rank(m, h, n, r) == laws.deep_linear((m, h, n), r), (m, h, n, r)


@pytest.mark.parametrize(
    ("shape", "coefficient"),
    [
        ((5, 3, 5, 0), known("13/2", 2)),
        ((5, 4, 5, 0), known(8)),
        ((4, 3, 8, 0), known(6)),
        ((8, 3, 4, 0), known(6)),
        ((3, 8, 4, 0), known(6)),
        ((2, 2, 2, 0), known("3/2")),
        ((2, 2, 2, 1), known(2, 2)),
        ((3, 2, 3, 1), known("7/2", 2)),
    ],
)
def test_reduced_rank_gives_the_known_values(shape, coefficient):
    assert laws.reduced_rank(*shape) == coefficient


@pytest.mark.parametrize(
    ("widths", "rank", "coefficient"),
    [
        ([4] * 4, 0, known("11/2", 3)),
        ([4] * 4, 2, known("15/2", 3)),
        ([10] * 5, 3, known(41, 4)),
        ([1] * 6, 0, known("1/2", 5)),  # a product of five numbers: a normal crossing
        ([7, 5], 4, known("35/2")),  # one matrix: regular
        ([3, 9, 3], 3, known("9/2")),  # at full rank the map is all that counts
    ],
)
def test_deep_linear_gives_the_known_values(widths, rank, coefficient):
    assert laws.deep_linear(widths, rank) == coefficient


@pytest.mark.parametrize("shape", [(6, 4, 5, 2), (9, 4, 3, 1), (3, 9, 4, 0), (5, 5, 5, 5)])
def test_transposing_the_map_changes_nothing(shape):
    m, h, n, r = shape
    assert laws.reduced_rank(m, h, n, r) == laws.reduced_rank(n, h, m, r)
    assert laws.bilinear_attention(m, h, min(h, m)) == laws.reduced_rank(m, h, m, min(h, m))


def by_quadrature(inputs, hidden, outputs, nbeta):
    """nβ E ½‖B A‖² with γ = 1, B integrated out by hand, over the singular values of A (at most two of them)."""
    count, wide = min(hidden, inputs), abs(inputs - hidden)
    u = np.linspace(-22, 2, 1200)
    square = np.stack(np.meshgrid(*[np.exp(2 * u)] * count, indexing="ij"))
    log = -outputs / 2 * np.log1p(nbeta * square) - square / 2 + (wide + 1) / 2 * np.log(square)
    weight = np.exp(log.sum(0) - log.sum(0).max())
    if count == 2:
        weight = weight * abs(square[0] - square[1])
    loss = outputs / 2 * (nbeta * square / (1 + nbeta * square)).sum(0)
    return float((loss * weight).sum() / weight.sum())


@pytest.mark.parametrize("shape", [(2, 2, 2), (3, 2, 3), (2, 2, 5), (1, 1, 3), (3, 1, 2), (2, 4, 4)])
def test_reduced_rank_is_the_limit_of_the_estimator(shape):
    law = laws.reduced_rank(*shape, 0)
    assert law.multiplicity == 1
    assert by_quadrature(*shape, 1e8) == pytest.approx(float(law.value), rel=1e-3)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 2), (4, 2, 3)])
def test_a_multiplicity_of_two_is_approached_logarithmically(shape):
    law = laws.reduced_rank(*shape, 0)
    assert law.multiplicity == 2
    assert (float(law.value) - by_quadrature(*shape, 1e8)) * math.log(1e8) == pytest.approx(1, abs=0.15)


def test_the_zero_map_from_its_other_points():
    for m, h, n in itertools.product(range(1, 6), repeat=3):
        assert laws.zero_map(m, h, n, 0) == laws.reduced_rank(m, h, n, 0)
        most = min(m, h)
        assert laws.zero_map(m, h, n, most) == laws.frozen_factor(n, most)  # B is regular on the image of A
        values = [laws.zero_map(m, h, n, rank).value for rank in range(most + 1)]
        assert values == sorted(values)  # the most singular point has the least λ


def test_regular_and_crossings():
    assert laws.regular(7) == known("7/2")
    assert laws.crossing([1, 3, 2]) == known("1/6")
    assert laws.crossing([2, 2, 1]) == known("1/4", 2)
    assert laws.crossing([1, 1]).times(5) == known("5/2", 6)
    assert laws.frozen_factor(6, 4) == known(12)


@pytest.mark.parametrize(
    ("h", "value"), [(0.01, 0.0007), (0.1, 0.0074), (1, 0.0652), (20 / 3, 0.25), (20, 0.375), (100, 0.4688)]
)
def test_a_quadratic_counts_stiff_directions(h, value):
    assert laws.quadratic(np.array([h]), 30, 200) == pytest.approx(value, abs=6e-5)
    assert laws.quadratic(np.array([h, 0.0, h]), 30, 200) == pytest.approx(2 * value, abs=1.2e-4)


@pytest.mark.parametrize(
    ("nbeta", "gamma", "value"),
    [
        (10, 0.1, 0.39027), (1e6, 0.1, 0.45149), (1e8, 0.1, 0.46035), (30, 1, 0.32550), (1e8, 1, 0.45149),
        (100, 10, 0.18164), (30, 200, 0.00075), (1e3, 200, 0.02112), (1e8, 200, 0.40024),
    ],
)  # fmt: skip
def test_a_pair_at_finite_nbeta_and_gamma(nbeta, gamma, value):
    assert laws.pair(nbeta, gamma) == pytest.approx(value, abs=6e-6)

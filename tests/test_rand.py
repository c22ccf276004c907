import itertools
import math

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from rllc import rand


def test_index_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    label_P = rng.integers(3, size=9)
    type_NP = rng.integers(4, size=(50, 9))
    expected_N = [adjusted_rand_score(type_P, label_P) for type_P in type_NP]
    assert np.allclose(rand.index(label_P, type_NP), expected_N, atol=1e-12)


def test_index_is_undefined_for_two_trivial_groupings():
    assert math.isnan(rand.index(np.zeros(4, int), np.zeros((1, 4), int))[0])
    assert math.isnan(rand.index(np.arange(4), np.arange(4)[None])[0])


@pytest.mark.parametrize(("groups", "kinds"), [((1, 5), (2, 4)), ((2, 2, 2), (1, 2, 3)), ((3, 3), (1, 1, 4))])
def test_chance_is_the_distribution_over_all_permutations(groups, kinds):
    label_P, type_P = (np.repeat(np.arange(len(sizes)), sizes) for sizes in (groups, kinds))
    every_NP = np.array(list(itertools.permutations(type_P)))  # each arrangement equally often
    null = rand.chance(groups, kinds, 0)
    assert null.exact
    repeats = len(every_NP) // len(null.ari_N)
    assert np.allclose(np.sort(np.repeat(null.ari_N, repeats)), np.sort(rand.index(label_P, every_NP)), atol=1e-12)
    assert abs(null.ari_N.mean()) < 1e-12  # what "adjusted" means


def test_p_value_of_a_perfect_match_counts_its_arrangements():
    null = rand.chance((2, 6), (2, 6), 0)
    assert rand.p_value(1.0, [null], seed=0) == 1 / math.comb(8, 2)
    assert rand.p_value(-1.0, [null], seed=0) == 1
    assert rand.p_value(1.0, [null, null], seed=0) == 1 / math.comb(8, 2) ** 2
    swap = rand.chance((2, 2), (2, 2), 0)
    assert rand.p_value(1.0, [swap], seed=0) == 2 / 6


def test_p_value_by_sampling_is_near_the_exact_one():
    big = rand.chance((3, 13), (3, 5, 8), 0)
    assert not big.exact
    assert len(big.ari_N) == 10_000
    assert rand.p_value(2.0, [big], seed=0) == 1 / 10_001
    small = rand.chance((2, 6), (2, 6), 0)
    exact = np.mean([(a + b + c) / 3 >= 0.3 for a, b, c in itertools.product(*[small.ari_N] * 3)])
    assert rand.p_value(0.3, [small] * 3, seed=0) == pytest.approx(exact, abs=4 * math.sqrt(exact / 10_000))


def test_sampled_chance_agrees_with_the_enumerated_one(monkeypatch):
    exact = rand.chance((2, 3, 3), (4, 4), 0)
    monkeypatch.setattr(rand, "ARRANGEMENTS", 0)
    sampled = rand.chance((2, 3, 3), (4, 4), 1)
    assert not sampled.exact
    for ari in (-0.1, 0.0, 0.1, 0.25):
        share = np.mean(exact.ari_N >= ari - 1e-9)
        assert 0.01 < share < 1
        assert rand.p_value(ari, [sampled], seed=0) == pytest.approx(share, abs=5 * math.sqrt(share / 10_000))

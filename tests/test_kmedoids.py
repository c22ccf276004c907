import itertools

import numpy as np
import planted
import pytest

from rllc import kmedoids, rand


def distances(points: np.ndarray) -> np.ndarray:
    return np.linalg.norm(points[:, None] - points[None], axis=2)


def test_planted_points_are_found_and_medoids_are_members():
    value_PDT, truth_P = planted.curves()
    dist_PP = distances(value_PDT.reshape(12, -1))
    medoid_K = kmedoids.fit(dist_PP, 3)
    assert rand.index(kmedoids.labels(dist_PP, medoid_K), truth_P[None])[0] == 1
    assert sorted(truth_P[medoid_K].tolist()) == [0, 1, 2]


@pytest.mark.parametrize("seed", range(8))
def test_no_swap_makes_the_sum_smaller_and_most_starts_reach_the_best(seed):
    dist_PP = distances(np.random.default_rng(seed).normal(size=(11, 2)))
    medoid_K = kmedoids.fit(dist_PP, 3)
    found = dist_PP[:, medoid_K].min(axis=1).sum()
    for place, point in itertools.product(range(3), range(11)):
        swapped = medoid_K.copy()
        swapped[place] = point
        assert dist_PP[:, swapped].min(axis=1).sum() >= found - 1e-12
    best = min(dist_PP[:, list(of)].min(axis=1).sum() for of in itertools.combinations(range(11), 3))
    assert found <= 1.05 * best


def test_swaps_mend_what_build_began(monkeypatch):
    dist_PP = distances(np.random.default_rng(3).normal(size=(60, 2)))
    monkeypatch.setattr(kmedoids, "BLOCK", 7)
    one = kmedoids.fit(dist_PP, 4)
    monkeypatch.setattr(kmedoids, "_build", lambda *_: np.arange(4))
    other = kmedoids.fit(dist_PP, 4)
    sums = [dist_PP[:, medoid_K].min(axis=1).sum() for medoid_K in (one, other, np.arange(4))]
    assert sums[1] < 1.1 * sums[0] < sums[2]


def test_one_medoid_and_as_many_as_points():
    dist_PP = distances(np.arange(5.0)[:, None])
    assert kmedoids.fit(dist_PP, 1).tolist() == [2] == [kmedoids.medoid(dist_PP)]
    assert sorted(kmedoids.fit(dist_PP, 5).tolist()) == [0, 1, 2, 3, 4]

import subprocess
import sys

import numpy as np
import planted
import pytest

from rllc import dtw, rand


def test_a_shift_within_the_band_costs_nothing():
    spike_PTD = np.zeros((3, 40, 1))
    spike_PTD[0, 10], spike_PTD[1, 14], spike_PTD[2, 15] = 1, 1, 1
    assert dtw.band(40) == 4
    assert dtw.band(5) == 1
    dist_PP = dtw.distances(spike_PTD)
    assert dist_PP[0, 1] == 0
    assert dist_PP[0, 2] == pytest.approx(np.sqrt(2))


def test_distances_are_those_of_the_definition():
    series_PTD = np.cumsum(np.random.default_rng(0).normal(size=(3, 12, 2)), axis=1)
    for p in range(3):
        for q in range(3):
            cost = np.full((13, 13), np.inf)
            cost[0, 0] = 0
            for i in range(12):
                for j in range(max(0, i - 1), min(12, i + 2)):
                    step = np.sum((series_PTD[p, i] - series_PTD[q, j]) ** 2)
                    cost[i + 1, j + 1] = step + min(cost[i, j], cost[i, j + 1], cost[i + 1, j])
            assert dtw.distances(series_PTD)[p, q] == pytest.approx(np.sqrt(cost[12, 12]), abs=1e-12)


@pytest.mark.slow
def test_kmeans_finds_planted_groups_whose_shapes_are_warped():
    value_PDT, truth_P = planted.curves()
    series_PTD = np.stack([np.roll(series, p % 3, axis=0) for p, series in enumerate(value_PDT.transpose(0, 2, 1))])
    label_P = dtw.kmeans(series_PTD, 3, n_init=3, seed=0)
    assert rand.index(np.asarray(label_P), truth_P[None])[0] == 1


@pytest.mark.slow
def test_kmeans_tells_when_it_failed():
    series_PTD = np.repeat(np.cumsum(np.random.default_rng(0).normal(size=(2, 10, 1)), axis=1), 3, axis=0)
    assert dtw.kmeans(series_PTD, 4, n_init=2, seed=0) is None


@pytest.mark.slow
def test_torch_is_not_imported_and_can_be_afterwards():
    lines = (
        "import sys, numpy, importlib.util",
        "from rllc import dtw",
        "dtw.distances(numpy.eye(4)[:, :, None])",
        "assert 'torch' not in sys.modules",
        "assert importlib.util.find_spec('torch')",
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", "; ".join(lines)]).returncode == 0

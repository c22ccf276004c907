import warnings

import numpy as np
import pytest

from rllc import kshape, scaling


def walks(parts: int, datasets: int, points: int, seed: int) -> np.ndarray:
    """z-normalised walks whose datasets go much the same way."""
    rng = np.random.default_rng(seed)
    common, own = (np.cumsum(rng.normal(size=(parts, n, points)), axis=2) for n in (1, datasets))
    return np.ascontiguousarray(scaling.znormalise(common + 0.3 * own).transpose(0, 2, 1))


def test_distance_of_a_shifted_copy_is_what_the_overlap_gives():
    spike, shifted, opposite = (np.zeros((1, 9, 1)) for _ in range(3))
    spike[0, 2], shifted[0, 6], opposite[0, 4] = 1, 3, -1
    assert kshape.distances(spike, shifted)[0, 0] == pytest.approx(0, abs=1e-12)
    assert kshape.distances(spike, opposite)[0, 0] == pytest.approx(1, abs=1e-12)


def test_distance_agrees_with_the_definition():
    one, other = walks(3, 2, 8, seed=0), walks(4, 2, 8, seed=1)
    for p in range(3):
        for k in range(4):
            sums = [sum(np.correlate(one[p, :, d], other[k, :, d], "full")[lag] for d in range(2)) for lag in range(15)]
            norm = np.linalg.norm(one[p]) * np.linalg.norm(other[k])
            assert kshape.distances(one, other)[p, k] == pytest.approx(1 - max(sums) / norm, abs=1e-12)


def test_series_that_differ_by_a_shift_are_one_cluster():
    bump = np.exp(-((np.arange(40) - 12.0) ** 2) / 8)
    dent = np.where(np.arange(40) < 20, 1.0, -1.0)
    series_PT = np.stack([np.roll(shape, shift) for shape in (bump, dent) for shift in (0, 4, 8)])
    found = kshape.fit(scaling.znormalise(series_PT[:, None]).transpose(0, 2, 1), 2, n_init=5, seed=0)
    assert found is not None
    assert len(set(found[0][:3])) == len(set(found[0][3:])) == 1


def test_no_clusters_are_made_up_when_there_are_fewer():
    series_PTD = np.repeat(walks(2, 1, 10, seed=0), 4, axis=0)
    assert kshape.fit(series_PTD, 5, n_init=10, seed=0) is None


@pytest.mark.slow
@pytest.mark.parametrize("datasets", [1, 2])
def test_labels_and_inertia_are_those_of_tslearn(datasets):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tslearn.clustering import KShape
    for seed in range(4):
        series_PTD = walks(14, datasets, 17, seed)
        for k in (2, 3, 4):
            model = KShape(k, n_init=4, random_state=seed).fit(series_PTD)
            found = kshape.fit(series_PTD, k, n_init=4, seed=seed)
            assert found is not None
            assert np.array_equal(found[0], model.labels_)
            assert found[1] == pytest.approx(model.inertia_, abs=1e-9)

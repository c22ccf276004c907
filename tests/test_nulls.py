import numpy as np

from rllc import nulls


def test_walks_keep_the_start_and_the_increments_of_each_part():
    value_PDT = np.cumsum(np.random.default_rng(0).normal(size=(3, 2, 12)), axis=2)
    walk_NPDT = nulls.walks(value_PDT, 4, seed=1)
    assert np.array_equal(walk_NPDT[..., 0], np.broadcast_to(value_PDT[..., 0], (4, 3, 2)))
    increments = np.diff(value_PDT, axis=2)
    for walk_PDT in walk_NPDT:
        moved = np.diff(walk_PDT, axis=2)
        assert np.allclose(np.sort(np.abs(moved), axis=2), np.sort(np.abs(increments), axis=2))
        one, other = (np.einsum("pdt,pet->pde", x, x) for x in (moved, increments))
        assert np.allclose(one, other)  # datasets move together


def test_walks_have_no_trend_and_differ_from_each_other():
    rise_PDT = np.broadcast_to(np.arange(30.0), (40, 2, 30))
    end_NP = nulls.walks(rise_PDT, 50, seed=0)[:, :, 0, -1]
    assert abs(end_NP.mean()) < 5 * np.sqrt(29 / 2000)
    assert end_NP.std() == np.clip(end_NP.std(), 0.95 * np.sqrt(29), 1.05 * np.sqrt(29))


def test_walks_are_the_same_for_the_same_seed():
    value_PDT = np.random.default_rng(0).normal(size=(3, 2, 12))
    assert np.array_equal(nulls.walks(value_PDT, 3, seed=5), nulls.walks(value_PDT, 3, seed=5))
    assert not np.array_equal(nulls.walks(value_PDT, 3, seed=5), nulls.walks(value_PDT, 3, seed=6))

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


def test_phases_keep_spectrum_level_and_the_relation_of_datasets():
    value_PDT = np.cumsum(np.random.default_rng(0).normal(size=(3, 2, 12)), axis=2)
    value_PDT[:, 1] = -2 * value_PDT[:, 0] + 5
    found_NPDT = nulls.phases(value_PDT, 200, seed=1)
    assert np.allclose(found_NPDT[:, :, 1], -2 * found_NPDT[:, :, 0] + 5)
    assert not np.allclose(found_NPDT[0], found_NPDT[1])
    mirrored_PDT = np.concatenate([value_PDT, value_PDT[:, :, ::-1]], axis=2)
    spread_PD = found_NPDT.var(axis=(0, 3))
    assert np.allclose(found_NPDT.mean(axis=(0, 3)), value_PDT.mean(axis=2), atol=0.35 * np.sqrt(spread_PD).max())
    assert np.allclose(((found_NPDT - value_PDT.mean(axis=2)[..., None]) ** 2).mean(axis=(0, 3)),
                       mirrored_PDT.var(axis=2), rtol=0.15)  # fmt: skip
    steepness = [np.diff(x, axis=-1).var() / x.var() for x in (value_PDT[0, 0], found_NPDT[:, 0, 0])]
    assert steepness[1] < 3 * steepness[0]


def test_phases_scatter_the_time_of_a_rise():
    rise_PDT = np.broadcast_to(np.tanh(np.arange(-20.0, 20.0)), (30, 1, 40))
    found_NPDT = nulls.phases(rise_PDT, 2, seed=0)
    steepest_P = np.abs(np.diff(found_NPDT[0, :, 0], axis=1)).argmax(axis=1)
    assert len(set(steepest_P.tolist())) > 10
    walks, phases = (nulls.draw(rise_PDT, 2, seed=0)[kind] for kind in ("walks", "phases"))
    assert np.array_equal(phases, found_NPDT)
    assert walks.shape == phases.shape

import numpy as np
import planted
import pytest

from rllc import dtw, methods, rand, scaling

METHODS = ("kmeans", "kmedoids", "dtw_kmeans", "kshape", "ward")


def series(value_PDT: np.ndarray, method: str, how: str = "none") -> np.ndarray:
    z = method == "kshape"
    scaled_PDT = scaling.znormalise(value_PDT) if z else scaling.scale(value_PDT, 0 * value_PDT, how)
    return scaled_PDT.transpose(0, 2, 1)


def ari(value_PDT: np.ndarray, truth_P: np.ndarray, method: str, how: str) -> float:
    label_P = methods.fit(method, series(value_PDT, method, how), k=3, n_init=10, seed=0)
    assert not isinstance(label_P, str)
    return float(rand.index(label_P, truth_P[None])[0])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", ["none", "global", "standardize", "minmax"])
def test_planted_shapes_are_found(method, how):
    assert ari(*planted.curves(), method, how) == 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", ["standardize", "minmax"])
def test_planted_shapes_of_any_size_are_found_once_scaled(method, how):
    assert ari(*planted.curves(gains=(0.2, 5)), method, how) == 1


@pytest.mark.parametrize("method", METHODS)
def test_height_is_seen_only_where_it_is_kept(method):
    for how in ("none", "global"):
        assert (ari(*planted.heights(), method, how) == 1) is (method != "kshape")
    assert ari(*planted.heights(), method, "standardize") < 0.5


@pytest.mark.parametrize("method", METHODS)
def test_permuted_parts_give_permuted_labels(method):
    value_PDT, _ = planted.curves()
    order = np.random.default_rng(1).permutation(len(value_PDT))
    one, other = (methods.fit(method, series(x, method), k=3, n_init=10, seed=0) for x in (value_PDT, value_PDT[order]))
    assert rand.index(np.asarray(one)[order], np.asarray(other)[None])[0] == 1


@pytest.mark.parametrize("method", METHODS)
def test_too_few_different_curves_are_a_failure(method):
    value_PDT = np.repeat(planted.curves()[0][:2], 3, axis=0)
    label_P = methods.fit(method, series(value_PDT, method), k=4, n_init=10, seed=0)
    assert label_P == "only 2 of 6 curves differ"


def test_failures_of_the_method_are_counted_not_believed(monkeypatch):
    seeds = []

    def one_cluster(series_PTD, k, *, n_init, seed):  # noqa: ARG001
        seeds.append(seed)
        return np.zeros(len(series_PTD), dtype=np.intp)

    monkeypatch.setattr(dtw, "kmeans", one_cluster)
    label_P = methods.fit("dtw_kmeans", series(planted.curves()[0], "dtw_kmeans"), k=2, n_init=1, seed=7)
    assert label_P == "a cluster stayed empty in all starts of 3 seeds"
    assert seeds == [7, 8, 9]


@pytest.mark.parametrize("method", METHODS)
def test_holes_are_never_clustered(method):
    series_PTD = series(planted.curves()[0], "kmeans").copy()
    series_PTD[3, 5, 0] = np.nan
    with pytest.raises(AssertionError, match="holes"):
        methods.fit(method, series_PTD, k=2, n_init=2, seed=0)


@pytest.mark.parametrize("method", METHODS)
def test_distances_are_symmetric_and_zero_on_the_diagonal(method):
    dist_PP = methods.distances(method, series(planted.curves()[0], method))
    assert np.allclose(dist_PP, dist_PP.T)
    assert np.array_equal(np.diag(dist_PP), np.zeros(12))
    assert (dist_PP[~np.eye(12, dtype=bool)] > 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_curves_that_moved_a_little_are_grouped_as_before(method):
    value_PDT, truth_P = planted.curves()
    near_P = np.asarray(methods.fit(method, series(value_PDT, method), k=3, n_init=10, seed=0))
    moved_PDT = value_PDT + 0.03 * np.random.default_rng(1).normal(size=value_PDT.shape)
    label_P = methods.again(method, series(moved_PDT, method), near_P, n_init=10, seed=5)
    assert rand.index(np.asarray(label_P), truth_P[None])[0] == 1


def test_kmeans_again_keeps_the_better_of_fresh_and_former_groups(monkeypatch):
    value_PDT, truth_P = planted.curves()
    given = series(value_PDT, "kmeans")
    poor_P = np.arange(12) % 3
    monkeypatch.setattr(methods, "fit", lambda *_, **__: poor_P)
    assert rand.index(np.asarray(methods.again("kmeans", given, truth_P, n_init=1, seed=0)), truth_P[None])[0] == 1


@pytest.mark.slow
def test_soft_dtw_is_a_divergence_that_forgives_shifts():
    value_PDT, truth_P = planted.curves()
    given = series(value_PDT, "soft_kmedoids")
    dist_PP = methods.distances("soft_kmedoids", given)
    assert np.allclose(dist_PP, dist_PP.T, atol=1e-6)
    assert np.array_equal(np.diag(dist_PP), np.zeros(12))
    assert np.allclose(methods.distances("soft_kmedoids", 1000 * given) / dist_PP.max(), 1e6 * dist_PP / dist_PP.max())
    label_P = methods.fit("soft_kmedoids", given, k=3, n_init=1, seed=0, dist_PP=dist_PP)
    assert rand.index(np.asarray(label_P), truth_P[None])[0] == 1

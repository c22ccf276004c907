import math
from dataclasses import replace

import numpy as np
import planted
import pytest

from rllc import cluster, nulls, rand
from rllc.config import Cluster, Primary
from rllc.scopes import Scope

OPTIONS = Cluster(
    **{"methods": ["kmeans", "kshape", "ward"], "scalings": ["none", "minmax"], "primary": Primary("kmeans", "none")},
    **{"k": None, "k_range": [2, 3, 4], "per_layer": True, "logx": True, "fill": "none"},
    **{"n_init": 10, "seed": 0, "null_draws": 10, "draws": 0},
)


def scope(value_PDT: np.ndarray, draw_BPDT: np.ndarray | None = None) -> Scope:
    parts = tuple(f"L0H{p}" for p in range(len(value_PDT)))
    draw_BPDT = np.empty((0, *value_PDT.shape)) if draw_BPDT is None else draw_BPDT
    return Scope("L0", parts, value_PDT, 0 * value_PDT, nulls.draw(value_PDT, OPTIONS.null_draws, 0), draw_BPDT)


def test_labels_are_renumbered_by_size_then_by_the_first_part():
    parts = ["L0H10", "L0H9", "L0H2", "L0H3", "L1H0", "L1H1", "L1H2"]
    assert cluster.canonical(np.array([5, 0, 0, 5, 3, 3, 3]), parts) == (2, 1, 1, 2, 0, 0, 0)
    assert cluster.canonical(np.array([1, 0]), ["L0H10", "L0H9"]) == (1, 0)


def test_renumbering_forgets_how_groups_were_numbered():
    parts = [f"L0H{p}" for p in range(12)]
    label_P = planted.curves()[1]
    assert cluster.canonical(label_P, parts) == cluster.canonical(np.array([2, 0, 1])[label_P], parts)


def test_group_finds_the_planted_k_above_its_null():
    value_PDT, truth_P = planted.curves()
    found = cluster.group(scope(value_PDT), "kmeans", "none", OPTIONS)
    assert [labels.k for labels in found] == [2, 3, 4]
    three = found[1]
    assert rand.index(np.array(three.label_P), truth_P[None])[0] == 1
    assert np.bincount(three.label_P).tolist() == [5, 4, 3]
    assert (
        three.scores["silhouette"] > 0.8 > three.scores["silhouette_null_q95"] >= three.scores["silhouette_null_median"]
    )
    assert cluster.choose(found, OPTIONS) == cluster.Choice("L0", 3, "chosen")
    assert cluster.choose(found, replace(OPTIONS, k=4)) == cluster.Choice("L0", 4, "given")


def test_random_walks_have_positive_silhouettes_and_stay_within_their_null():
    rng = np.random.default_rng(3)
    inside = []
    for _ in range(6):
        walks_PDT = np.cumsum(rng.normal(size=(10, 2, 20)), axis=2)
        for labels in cluster.group(scope(walks_PDT), "kmeans", "none", OPTIONS):
            assert 0.05 < labels.scores["silhouette_walks_median"] < 0.5
            assert labels.scores["silhouette_null_median"] >= labels.scores["silhouette_walks_median"]
            assert labels.scores["silhouette"] > 0
            inside.append(labels.scores["silhouette"] <= labels.scores["silhouette_null_q95"])
    assert np.mean(inside) > 0.7


def test_kshape_is_blind_to_scaling_and_run_once():
    value_PDT, _ = planted.curves(gains=(0.2, 5))
    few = replace(OPTIONS, k_range=[2, 4], null_draws=2)
    assert cluster.ways(replace(few, methods=["ward", "kshape"])) == [
        ("ward", ("none",)), ("ward", ("minmax",)), ("kshape", ("none", "minmax")),
    ]  # fmt: skip
    twice = cluster.clusterings(scope(value_PDT), ("kshape", ("none", "minmax")), few)
    none, minmax = ([labels for labels in twice if labels.scaling == how] for how in OPTIONS.scalings)
    assert [labels.k for labels in none] == [labels.k for labels in minmax] == [2, 4]
    assert [(labels.label_P, labels.scores["silhouette"]) for labels in none] == [
        (labels.label_P, labels.scores["silhouette"]) for labels in minmax
    ]
    alone = cluster.group(scope(value_PDT), "kshape", "minmax", few)
    assert [labels.label_P for labels in alone] == [labels.label_P for labels in minmax]
    ward = cluster.clusterings(scope(value_PDT), ("ward", ("minmax",)), OPTIONS)
    assert [(labels.scaling, labels.k) for labels in ward] == [("minmax", k) for k in (2, 3, 4)]


def test_kshape_ignores_level_and_size_of_every_curve():
    value_PDT, _ = planted.curves()
    rng = np.random.default_rng(0)
    moved_PDT = value_PDT * rng.uniform(0.1, 9, size=(12, 2, 1)) + rng.normal(size=(12, 2, 1))
    few = replace(OPTIONS, null_draws=1)
    one, other = (cluster.group(scope(x), "kshape", "none", few) for x in (value_PDT, moved_PDT))
    assert [labels.label_P for labels in one] == [labels.label_P for labels in other]


@pytest.mark.parametrize("method", ["kmeans", "kshape", "ward"])
def test_a_failed_clustering_has_a_reason_and_no_labels(method):
    copies_PDT = np.repeat(planted.curves()[0][:3], 2, axis=0)
    two, three, four = cluster.group(scope(copies_PDT), method, "none", OPTIONS)
    assert two.reason == three.reason == ""
    assert three.label_P is not None
    assert len(set(three.label_P)) == 3
    assert four.label_P is None
    assert four.reason == "failed: only 3 of 6 curves differ"
    assert math.isnan(four.scores["silhouette"])
    assert cluster.choose([four], replace(OPTIONS, primary=Primary(method, "none"))).how == "first"


def test_as_many_groups_as_parts_have_no_silhouette():
    *_, four = cluster.group(scope(planted.curves()[0][:4]), "ward", "none", OPTIONS)
    assert four.label_P == (0, 1, 2, 3)
    assert math.isnan(four.scores["silhouette"])
    assert math.isnan(four.scores["silhouette_null_median"])


def test_few_null_curves_for_the_slow_method():
    assert cluster.null_draws("dtw_kmeans", OPTIONS) == 3
    assert cluster.null_draws("ward", OPTIONS) == 10


def test_k_is_chosen_by_the_gain_over_the_null_of_the_primary():
    def labels(
        k: int, silhouette: float, null: float, method: str = "kmeans", least: float = math.nan
    ) -> cluster.Labels:
        scores = {"silhouette": silhouette, "silhouette_null_median": null, "jaccard_least": least}
        return cluster.Labels("L1", method, "none", k, 0, (), (), scores)

    found = [labels(2, 0.6, 0.5), labels(3, 0.5, 0.2), labels(4, math.nan, 0.1), labels(4, 0.9, 0.0, "ward")]
    assert cluster.choose(found, OPTIONS) == cluster.Choice("L1", 3, "chosen")
    found = [labels(2, 0.6, 0.5, least=0.9), labels(3, 0.5, 0.2, least=0.59), labels(4, 0.5, 0.3, least=0.6)]
    assert cluster.choose(found, OPTIONS) == cluster.Choice("L1", 4, "chosen")
    assert cluster.choose(found[1:2], OPTIONS) == cluster.Choice("L1", 3, "unstable")


def test_groups_that_the_errors_do_not_reach_are_stable_and_others_are_not():
    value_PDT, truth_P = planted.curves()
    rng = np.random.default_rng(2)
    shifts = rng.normal(size=(30, *value_PDT.shape))
    options = replace(OPTIONS, draws=30, k_range=[3], null_draws=3, scalings=["none"])
    for method in ("kmeans", "kmedoids", "ward", "kshape"):
        calm, wild = (
            cluster.group(scope(value_PDT, value_PDT + size * shifts), method, "none", options)[0] for size in (0.02, 6)
        )
        assert rand.index(np.array(calm.label_P), truth_P[None])[0] == 1
        assert calm.jaccard_K == (1, 1, 1)
        assert calm.scores["jaccard_least"] == calm.scores["jaccard"] == 1
        warm = method == "kshape"  # it starts from the groups of the estimate, which flatters them
        assert wild.scores["jaccard_least"] < (0.75 if warm else 0.6)
        assert len(calm.draw_BP) == cluster.draws(method, options) == (20 if warm else 30)
        assert wild.scores["jaccard_null_median"] < 0.9


def test_methods_weigh_alike_in_the_consensus():
    def labels(method: str, how: str, draw_BP: list[list[int]]) -> cluster.Labels:
        return cluster.Labels("L0", method, how, 2, 0, ("a", "b", "c"), (0, 0, 1), {}, draw_BP=np.array(draw_BP))

    found = [
        labels("kmeans", "none", [[0, 0, 1]] * 3 + [[0, 1, 1]]),
        labels("kmeans", "minmax", [[0, 1, 1], [1, 0, 0]]),
        labels("ward", "none", []),
        replace(labels("kshape", "none", [[0, 0, 0]]), label_P=None),
        replace(labels("ward", "none", []), k=3, label_P=(0, 1, 2)),
    ]
    share_PP = cluster.consensus(found, 2)
    assert share_PP[0, 1] == (0.75 / 2 + 1) / 2
    assert share_PP[1, 2] == (0.25 + 1) / 2 / 2
    assert share_PP[0, 2] == 0
    assert cluster.consensus(found, 4) is None

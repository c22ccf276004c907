from dataclasses import replace

import numpy as np
import pytest

from rllc import scopes
from rllc.config import Cluster, Primary
from rllc.mistake import Mistake
from rllc.trajectories import Trajectories

OPTIONS = Cluster(
    **{"methods": ["kmeans", "ward"], "scalings": ["none", "standardize"], "primary": Primary("kmeans", "none")},
    **{"k": None, "k_range": [2, 3], "per_layer": True, "logx": True, "fill": "none"},
    **{"n_init": 10, "seed": 0, "null_draws": 4, "draws": 0},
)
HEADS = ["L0H10", "L0H9", "L0H2", "L1H0", "L1H1", "L1H2"]


def test_heads_are_grouped_by_layer_in_natural_order():
    assert scopes.members(HEADS, per_layer=True) == {"L0": ("L0H2", "L0H9", "L0H10"), "L1": ("L1H0", "L1H1", "L1H2")}
    assert list(scopes.members(HEADS, per_layer=False)) == ["all"]
    assert len(scopes.members(HEADS, per_layer=False)["all"]) == 6


def test_what_is_no_head_is_left_out_unless_nothing_is():
    assert scopes.members(["*", *HEADS], per_layer=False)["all"] == tuple(scopes.members(HEADS, per_layer=False)["all"])
    assert scopes.left_out(["*", "L0.mlp.in", *HEADS]) == ("*", "L0.mlp.in")
    assert scopes.members(["b", "0.10", "0.9"], per_layer=True) == {"all": ("0.9", "0.10", "b")}
    assert scopes.left_out(["b", "a"]) == ()


def test_cut_resamples_only_with_logx():
    steps = (0, 1, 100)
    value_PDT = np.log1p(np.array(steps)) * np.ones((6, 2, 1))
    curves = Trajectories("r", "llc", tuple(HEADS), ("a", "b"), steps, value_PDT, 0 * value_PDT)
    first, second = scopes.cut(curves, OPTIONS)
    assert (first.name, second.name, first.parts) == ("L0", "L1", ("L0H2", "L0H9", "L0H10"))
    assert np.allclose(first.value_PDT, np.log(101) * np.array([0, 0.5, 1]) * np.ones((3, 2, 1)))
    assert np.array_equal(scopes.cut(curves, replace(OPTIONS, logx=False))[0].value_PDT, value_PDT[:3])
    assert {kind: of.shape for kind, of in first.null_NPDT.items()} == dict.fromkeys(("walks", "phases"), (4, 3, 2, 3))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"primary": Primary("kshape", "none")}, r"cluster.primary.method: 'kshape' is not one of: kmeans, ward"),
        ({"primary": Primary("ward", "minmax")}, r"cluster.primary.scaling: 'minmax' is not one of: none, standardize"),
        ({"n_init": 0}, r"cluster.n_init: 0 has to be 1 or more"),
        ({"null_draws": 0}, r"cluster.null_draws: 0 has to be 1 or more"),
        ({"seed": -1}, r"cluster.seed: -1 has to be 0 or more"),
        ({"k_range": []}, r"cluster.k_range: it is empty"),
        ({"k": 1}, r"cluster.k: 1 has to be 2 or more"),
        ({"k_range": [1, 2]}, r"cluster.k_range: 1 has to be 2 or more"),
        ({"k": 4}, r"cluster.k: 4 is more than the 3 parts of scope L0"),
        ({"k_range": [3, 7], "per_layer": False}, r"cluster.k_range: 7 is more than the 6 parts of scope all"),
    ],
)
def test_options_that_cannot_work_are_refused(change, sentence):
    scopes.check(OPTIONS, HEADS)
    with pytest.raises(Mistake, match=sentence):
        scopes.check(replace(OPTIONS, **change), HEADS)


def test_a_given_k_joins_the_range():
    assert scopes.tried(replace(OPTIONS, k=5, k_range=[4, 2, 4])) == [2, 4, 5]


def test_what_the_range_loses_is_said():
    assert scopes.too_many(OPTIONS, HEADS) == (
        "cluster.k_range: [3] left out, for scope L0 has 3 parts and a k has to be below."
    )
    assert scopes.too_many(replace(OPTIONS, per_layer=False), HEADS) == ""
    assert scopes.too_many(replace(OPTIONS, k=3), HEADS) == ""
    for options in (OPTIONS, replace(OPTIONS, k_range=[2, 5, 9])):
        kept = scopes.fitting(options, HEADS).k_range
        assert f"{[k for k in options.k_range if k not in kept]} left out" in scopes.too_many(options, HEADS)


def test_the_range_shrinks_to_the_smallest_scope_and_a_given_k_does_not():
    few = ["L0H0", "L0H1", "L0H2", "L0H3", "L1H0", "L1H1", "L1H2"]
    assert scopes.fitting(replace(OPTIONS, k_range=[2, 3, 4, 5]), few).k_range == [2]
    assert scopes.fitting(replace(OPTIONS, k_range=[2, 3, 4, 5], per_layer=False), few).k_range == [2, 3, 4, 5]
    assert scopes.fitting(replace(OPTIONS, k_range=[2]), ["L0H0", "L0H1"]) is None
    given = scopes.fitting(replace(OPTIONS, k=4, k_range=[2, 3]), few)
    with pytest.raises(Mistake, match=r"cluster.k: 4 is more than the 3 parts of scope L1"):
        scopes.check(given, few)

import math

import pytest
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

from rllc import compare
from rllc.cluster import Choice, Labels
from rllc.config import Cluster, Primary

PARTS = tuple(f"L0H{p}" for p in range(8))
OPTIONS = Cluster(
    **{"methods": ["ward", "kmeans"], "scalings": ["none"], "primary": Primary("kmeans", "none")},
    **{"k": None, "k_range": [2, 3], "per_layer": True, "logx": True, "fill": "none"},
    **{"n_init": 10, "seed": 0, "null_draws": 10, "draws": 0},
)


def labels(text: str, method: str = "kmeans", scope: str = "L0") -> Labels:
    label_P = tuple(int(digit) for digit in text) or None
    parts = tuple(f"{scope}H{p}" for p in range(8))
    return Labels(scope, method, "none", len(set(text)) or 2, 0, parts, label_P, {}, "" if text else "failed: x")


def types(text: str, scope: str = "L0") -> dict[str, str]:
    return {f"{scope}H{p}": letter for p, letter in enumerate(text)}


def test_agreement_is_that_of_scikit_learn_with_an_exact_p():
    agreement, null = compare.agree(labels("00011122"), types("aaabbbbb"), seed=0)
    assert agreement.ari == pytest.approx(adjusted_rand_score(list("aaabbbbb"), list("00011122")))
    assert agreement.ami == pytest.approx(adjusted_mutual_info_score(list("aaabbbbb"), list("00011122")))
    assert null is not None
    # the triple of a's is one of the two triples of labels: 2 of the 56 places it may take
    assert (null.exact, len(null.ari_N), agreement.p) == (True, 56, 2 / 56)


@pytest.mark.parametrize(
    ("text", "kinds", "reason"),
    [
        ("00001111", "aaaaaaaa", "all parts are of one type"),
        ("00000000", "aaaabbbb", "all parts are in one group"),
        ("01234567", "abcdefgh", "every part is a group and a type of its own"),
        ("00001111", "aaaabbb", "1 of 8 parts have no type"),
        ("", "aaaabbbb", "failed: x"),
    ],
)
def test_agreement_is_undefined_not_zero_where_nothing_can_agree(text, kinds, reason):
    agreement, null = compare.agree(labels(text), types(kinds), seed=0)
    assert null is None
    assert agreement.reason == reason
    assert all(math.isnan(number) for number in (agreement.ari, agreement.ami, agreement.p))


def test_the_mean_leaves_undefined_scopes_out_and_names_them():
    full = compare.agree(labels("00111111"), types("aabbbbbb"), seed=0)
    none = compare.agree(labels("00111111"), types("aaaaaaaa"), seed=0)
    assert compare.mean({"L0": full, "L1": none}, seed=0) == compare.Agreement(1, 1, 1 / 28, "without L1")
    assert compare.mean({"L1": none}, seed=0).reason == "undefined in L1"
    both = compare.mean({"L0": full, "L1": full}, seed=0)
    assert (both.ari, both.p, both.reason) == (1, 1 / 28**2, "")


def runs(mains: tuple[int, int]) -> list[compare.Agreed]:
    """Two runs of two layers: in layer 1, k = 3 is right, in layer 0 k = 2 is."""
    found, choices = {}, {}
    for run in ("a", "b"):
        for scope, main in zip(("L0", "L1"), mains, strict=True):
            found[run, scope] = [
                labels(text, m, scope) for m in ("ward", "kmeans") for text in ("00111111", "00112222")
            ]
            choices[run, scope] = Choice(scope, main, "chosen")
    kinds = {**types("aabbbbbb", "L0"), **types("aabbcccc", "L1")}
    return compare.agreements(found, choices, {"a": kinds, "b": kinds}, OPTIONS)


def test_lines_cover_scopes_their_mean_and_all_runs():
    lines = runs((3, 3))
    assert list(dict.fromkeys((line.run, line.scope) for line in lines)) == [
        *(("a", "L0"), ("a", "L1"), ("a", "mean"), ("b", "L0"), ("b", "L1"), ("b", "mean")),
        *(("all", "L0"), ("all", "L1"), ("all", "mean")),
    ]
    assert {line.k for line in lines} == {"2", "3"}
    primary = [line for line in lines if line.primary]
    assert len(primary) == 9
    assert {(line.method, line.scaling, line.k) for line in primary} == {("kmeans", "none", "3")}
    of = {(line.run, line.scope): line.agreement for line in primary}
    assert of["all", "mean"].ari == pytest.approx((of["a", "L0"].ari + 1) / 2)
    assert of["a", "L1"].p == 2 / 420
    assert of["all", "L1"].p == pytest.approx((2 / 420) ** 2, abs=3e-4)  # sampled: 1/10,001 at least


def test_scopes_with_different_main_k_have_a_mean_of_their_own():
    lines = runs((2, 3))
    of = {(line.run, line.scope): line for line in lines if line.primary}
    assert (of["a", "L0"].k, of["a", "L1"].k, of["a", "mean"].k, of["all", "mean"].k) == ("2", "3", "main", "main")
    assert of["a", "mean"].agreement.ari == of["all", "mean"].agreement.ari == 1
    assert of["a", "mean"].agreement.p == pytest.approx(2 / 420 / 28)  # the two pairs of layer 1 may be exchanged
    assert all(line.agreement.ari < 1 for line in lines if (line.scope, line.k) in {("mean", "2"), ("mean", "3")})


def test_between_compares_each_pair_at_the_main_k():
    found = [labels("00111111"), labels("00111111", "ward"), labels("", "kshape"), labels("00112222", "ward")]
    assert compare.between(("r", "L0"), found, 2) == [("r", "L0", 2, "kmeans/none", "ward/none", 1.0)]

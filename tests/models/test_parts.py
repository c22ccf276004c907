import fnmatch

import pytest

from rllc.config import Model
from rllc.mistake import Mistake
from rllc.models import parts
from rllc.models.layout import names

MODEL = Model(n_layers=12, n_heads=12, d_model=8, d_head=4, n_ctx=16, d_vocab=300, positions="shortformer")
NAMES = [name for name, _, _ in names(MODEL)]
MATRICES = [f".{kind}" for kind in ("q", "k", "v", "o", "bq", "bk", "bv")]


def test_a_head_is_its_seven_arrays_and_no_other_head() -> None:
    for layer, head in ((0, 1), (1, 0), (1, 1), (11, 11)):
        assert set(parts.select(f"L{layer}H{head}", NAMES)) == {f"L{layer}H{head}{kind}" for kind in MATRICES}


def test_a_star_after_a_number_does_not_run_on() -> None:
    assert {name.partition(".")[0].partition("H")[0] for name in parts.select("L1*", NAMES)} == {"L1"}
    assert {name.partition(".")[0] for name in parts.select("L0H1*", NAMES)} == {"L0H1"}
    assert len(parts.select("L1*", NAMES)) == 12 * 7 + 3


@pytest.mark.parametrize("glob", ["*", "*.q", "L*H3.q", "L?H?.[qk]", "*.ln1.w", "embed", "unembed*", "*e*"])
def test_globs_without_a_number_before_the_star_are_those_of_the_shell(glob: str) -> None:
    expected = [name for name in NAMES if fnmatch.fnmatchcase(name, glob) or fnmatch.fnmatchcase(name, f"{glob}.*")]
    assert parts.select(glob, NAMES) == expected


def test_a_union_is_a_union_in_the_order_of_the_names() -> None:
    together = parts.select("L1H6.v+embed+L1H6", NAMES)
    assert set(together) == {"embed", *parts.select("L1H6", NAMES)}
    assert together == sorted(together, key=NAMES.index)


def test_a_complement_and_its_term_split_the_names() -> None:
    inside, outside = parts.select("L3*", NAMES), parts.select("!L3*", NAMES)
    assert sorted(inside + outside) == sorted(NAMES)
    assert not set(inside) & set(outside)


def test_a_complement_in_a_union_is_of_its_term_alone() -> None:
    assert parts.select("L3H0+!L3*", NAMES) == [
        name for name in NAMES if not name.startswith("L3") or name.startswith("L3H0.")
    ]


def test_a_dot_in_a_glob_is_a_dot() -> None:
    with pytest.raises(Mistake):
        parts.select("L1H6xq", [*NAMES[:3], "L1H6.q"])


@pytest.mark.parametrize("part", ["L2H12", "L12H0", "L1H6.x", "", "L1H6+", "+L1H6", "!L2H12", "0.10"])
def test_a_term_that_matches_nothing_is_refused_with_the_legal_heads(part: str) -> None:
    with pytest.raises(Mistake, match=r"^grid.parts: .* matches no .*; legal: heads L0H0, L0H1, .*, …; names emb"):
        parts.select(part, NAMES)


@pytest.mark.parametrize(
    ("part", "nearest"),
    [
        ("L1H12", "L1H2, L1H1, L1H11, L1H10, "), ("embde", "embed, unembed"), ("L0.ln", "L0.ln1, "),
        ("L3H4.g", "L3H4.v, L3H4.q, "),
    ],
)  # fmt: skip
def test_what_matches_nothing_is_refused_with_the_nearest_names(part: str, nearest: str) -> None:
    with pytest.raises(Mistake, match=f"{part!r} matches no parameter; nearest: {nearest}"):
        parts.select(part, NAMES)


def test_a_tied_array_is_matched_by_each_of_its_names_and_left_out_by_each() -> None:
    tied = {"unembed": "embed"}
    assert parts.select("unembed", NAMES, tied=tied) == ["embed", "unembed.b"]
    assert parts.select("embed", NAMES, tied=tied) == ["embed"]
    assert set(parts.select("!unembed", NAMES, tied=tied)) == set(NAMES) - {"embed", "unembed", "unembed.b"}


@pytest.mark.parametrize("part", ["L*+!L*", "?*", "**", "L0*+!L0*"])
def test_the_whole_model_under_another_name_is_told_with_its_size(part: str) -> None:
    told = parts.caution(part, parts.select(part, NAMES), NAMES)
    assert told == f"{part!r} is the whole model, all {len(NAMES)} arrays; write '*' if that is meant"


@pytest.mark.parametrize("part", ["*", "L*", "!embed", "L1H1"])
def test_a_part_or_the_whole_model_by_its_name_is_not_told(part: str) -> None:
    assert parts.caution(part, parts.select(part, NAMES), NAMES) == ""


def test_an_empty_part_is_refused() -> None:
    with pytest.raises(Mistake, match=r"'!\*' leaves no parameter"):
        parts.select("!*", NAMES)


def test_heads_are_all_heads_once_in_order() -> None:
    assert parts.heads(NAMES) == [f"L{layer}H{head}" for layer in range(12) for head in range(12)]


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ("L1H6", (1, 6)), ("L10H11", (10, 11)), ("L1H6.q", (1, -1)), ("L0*", (0, -1)), ("L1H6+L1H7", (1, -1)),
        ("L0H0+L1H0", (-1, -1)), ("*", (-1, -1)), ("*.q", (-1, -1)), ("!L0*", (-1, -1)), ("embed", (-1, -1)),
    ],
)  # fmt: skip
def test_the_place_of_a_part(part: str, place: tuple[int, int]) -> None:
    assert parts.place(part) == place

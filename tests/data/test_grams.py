from collections import Counter

import numpy as np
import pytest

from rllc.data import brackets, grams

TOKENS = np.random.default_rng(0).integers(0, 6, (40, 15))


def test_ngrams_are_equal_where_their_tokens_are():
    for n in (1, 2, 3):
        codes = grams.ending(TOKENS, n)
        seen = {}
        for row, position in np.ndindex(*TOKENS.shape):
            if position < n - 1:
                assert codes[row, position] == -1 or n == 1
            else:
                text = tuple(TOKENS[row, position - n + 1 : position + 1].tolist())
                assert seen.setdefault(text, codes[row, position]) == codes[row, position]
        assert len(set(seen.values())) == len(seen)


def test_the_most_frequent_ngrams_are_marked_where_they_end():
    counts = Counter(tuple(row[i : i + 2]) for row in TOKENS.tolist() for i in range(len(row) - 1))
    (first, most), (second, fewer) = counts.most_common(2)
    assert most > fewer
    marked = grams.common(TOKENS, 2, 1)
    assert marked.sum() == most
    assert {tuple(TOKENS[row, at - 1 : at + 1].tolist()) for row, at in np.argwhere(marked)} == {first}
    assert grams.common(TOKENS, 2, 2).sum() == most + fewer
    assert second != first


def test_a_copy_is_a_pair_that_stood_before_in_its_row():
    marked = grams.copied(TOKENS)
    for row, at in np.ndindex(*TOKENS.shape):
        before = {tuple(TOKENS[row, i - 1 : i + 1].tolist()) for i in range(1, at)}
        assert marked[row, at] == (at > 0 and tuple(TOKENS[row, at - 1 : at + 1].tolist()) in before)


def test_known_ngrams_have_the_rows_and_the_lift_and_chance_pairs_do_not():
    """Token 90 is followed by 91 in every row, elsewhere tokens are uniform on 0 … 79."""
    tokens = np.random.default_rng(1).integers(0, 80, (60, 20))
    tokens[:, 5:7] = 90, 91
    known = grams.known(tokens, 2)
    assert (known[:, 6] >= 0).all()
    assert len(set(known[:, 6])) == 1
    assert (np.delete(known, 6, axis=1) < 0).all()
    few = tokens.copy()
    few[grams.ROWS - 1 :, 5:7] = 0, 1  # now in one row too few
    assert (grams.known(few, 2)[: grams.ROWS - 1, 6] < 0).all()
    assert (grams.known(np.where(tokens == 90, 91, tokens) % 2, 2) < 0).all()  # frequent, but without lift


def test_a_skip_bigram_is_found_at_any_distance_of_the_span_and_not_beyond():
    rng = np.random.default_rng(2)
    for gap, found in ((1, False), (2, True), (grams.SPAN, True), (grams.SPAN + 1, False)):
        tokens = rng.integers(0, 300, (60, 48))
        tokens[:, 4], tokens[:, 4 + gap] = 400, 401
        skips = grams.skipping(tokens)
        assert (skips[:, 4 + gap] >= 0).all() == found
        if found:
            assert set(skips[:, 4 + gap]) == {400 * 402 + 401}
        assert (skips >= 0).sum() == (60 if found else 0)


SIGNS = {1: "(", 2: ")", 3: "[", 4: "]", 5: "()", 6: ")]", 7: "(["}


@pytest.mark.parametrize(
    ("row", "partners"),
    [
        ([0, 1, 0, 2, 0], [-1, -1, -1, 1, -1]),
        ([1, 3, 4, 2, 2], [-1, -1, 1, 0, -1]),
        ([1, 3, 2, 4, 0], [-1, -1, -1, -1, -1]),  # crossed: all forgotten
        ([1, 5, 2, 0, 0], [-1, -1, 0, -1, -1]),  # one that opens and closes in itself
        ([3, 1, 6, 0, 0], [-1, -1, 0, -1, -1]),  # closes two: the last counts
        ([7, 0, 4, 2, 2], [-1, -1, 0, 0, -1]),
    ],
)
def test_brackets_are_matched_by_nesting(row, partners):
    assert brackets.partners(np.array([row]), SIGNS).tolist() == [partners]


def test_rows_do_not_share_brackets():
    assert brackets.partners(np.array([[0, 1], [2, 0]]), SIGNS).tolist() == [[-1, -1], [-1, -1]]

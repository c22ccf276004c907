import numpy as np
import pytest

from rllc import stability


def test_jaccard_of_groups_known_by_hand():
    label_P = np.array([0, 0, 0, 1, 1])
    draw_BP = np.array([[0, 0, 0, 1, 1], [1, 1, 0, 0, 0], [0, 1, 2, 3, 3]])
    assert stability.jaccard(label_P, draw_BP) == pytest.approx([(1 + 2 / 3 + 1 / 3) / 3, (1 + 2 / 3 + 1) / 3])
    assert stability.weighted(label_P, np.array([0.5, 1.0])) == pytest.approx(0.7)
    assert np.isnan(stability.jaccard(label_P, draw_BP[:0])).all()


def test_jaccard_does_not_see_how_groups_are_numbered():
    rng = np.random.default_rng(0)
    label_P, draw_BP = np.repeat([0, 1, 2], 5), rng.integers(3, size=(20, 15))
    assert np.allclose(stability.jaccard(label_P, draw_BP), stability.jaccard(label_P, np.array([2, 0, 1])[draw_BP]))


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "highly stable"), (0.85, "highly stable"), (0.75, "stable"), (0.74, "pattern, members doubtful"),
     (0.6, "pattern, members doubtful"), (0.59, "do not trust"), (np.nan, "")],
)  # fmt: skip
def test_the_usual_reading(value, text):
    assert stability.reading(value) == text


def test_together_consensus_and_support_known_by_hand():
    draw_BP = np.array([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]])
    share_PP = stability.together(draw_BP)
    assert np.array_equal(share_PP[0], [1, 1, 0.25, 0])
    assert share_PP[2, 3] == 0.75
    label_P = stability.consensus(share_PP, 2)
    assert label_P[0] == label_P[1] != label_P[2] == label_P[3]
    own_P, rival_P, other_P = stability.support(share_PP, label_P)
    assert np.array_equal(own_P, [1, 1, 0.75, 0.75])
    assert np.array_equal(rival_P, [0.125, 0.125, 0.25, 0])
    assert (other_P != label_P).all()


def test_support_of_a_part_alone_and_of_a_single_group():
    share_PP = np.array([[1, 0.2, 0.1], [0.2, 1, 0.9], [0.1, 0.9, 1]])
    own_P, rival_P, other_P = stability.support(share_PP, np.array([1, 0, 0]))
    assert own_P == pytest.approx([0.8, 0.9, 0.9])
    assert rival_P == pytest.approx([0.15, 0.2, 0.1])
    assert other_P.tolist() == [0, 1, 1]
    own_P, rival_P, other_P = stability.support(share_PP, np.zeros(3, dtype=int))
    assert own_P == pytest.approx([0.15, 0.55, 0.5])
    assert np.isnan(rival_P).all()
    assert (other_P == -1).all()

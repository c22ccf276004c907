import pytest

from rllc.mistake import Mistake, at_least, unknown, words


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no such\n\tcolumn.\n"), "no such column"),
        (ValueError("a. b"), "a. b"),
        (OSError(), "OSError"),
        (KeyError("labels"), "'labels'"),
    ],
)
def test_what_an_exception_says_stands_on_one_line(error: Exception, said: str) -> None:
    assert words(error) == said


def test_legal_values_are_listed_up_to_forty() -> None:
    assert str(unknown("a.b", 3, "xy")) == "a.b: 3 is not one of: x, y."
    assert str(unknown("a.b", "c", range(41))).endswith(" 38, 39, … (41 in all).")
    at_least("a.b", 1, 1)
    with pytest.raises(Mistake, match=r"^a\.b: 0 is below the least legal value, 1\.$"):
        at_least("a.b", 0, 1)

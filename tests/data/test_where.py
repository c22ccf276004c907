from typing import Any

import pytest

from rllc.data.where import Where, parse
from rllc.mistake import Mistake


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('meta.pile_set_name == "Github"', Where("meta.pile_set_name", "Github")),
        ("lang=='C++ code'", Where("lang", "C++ code")),
        (" size == 12 ", Where("size", 12)),
        ("score == -0.5", Where("score", -0.5)),
        ('name == ""', Where("name", "")),
    ],
)
def test_conditions(text: str, where: Where) -> None:
    assert parse(text) == where


@pytest.mark.parametrize("text", ["", "meta", "meta = 'x'", "a != 'x'", "a == x", "a == 'x' and b == 'y'", "== 'x'"])
def test_anything_else_is_a_mistake_that_shows_the_form(text: str) -> None:
    with pytest.raises(Mistake) as error:
        parse(text)
    assert str(error.value) == f'where: {text!r} is not of the form field == "value" or field == number.'


@pytest.mark.parametrize(
    ("record", "values"),
    [
        ({"meta": {"set": "Github"}}, ["Github"]),
        ({"meta": {"set": ["a", "b"]}}, ["a", "b"]),
        ({"meta.set": "flat", "meta": {"set": "nested"}}, ["flat"]),
        ({"meta": "text"}, []),
        ({"meta": None}, []),
        ({}, []),
    ],
)
def test_values_of_a_field(record: dict[str, Any], values: list[Any]) -> None:
    assert Where("meta.set", "x").values(record) == values

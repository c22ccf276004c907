import math

import pytest

from rllc.track.points import Line, series


def released(line):
    return [(one.step, [row["n"] for row in one.rows], one.whole) for one in line.ready()]


def test_a_line_releases_whole_steps_in_order():
    line = Line()
    for step in (10, 0):
        for key in "ab":
            line.expect(step, f"{key}{step}")
    line.put(10, "a10", {"n": 1})
    line.put(10, "b10", {"n": 2})
    line.put(0, "a0", {"n": 3})
    line.put(0, "a0", {"n": 4})
    assert released(line) == []
    line.put(0, "b0", {"n": 5})
    assert released(line) == [(0, [3, 5], True), (10, [1, 2], True)]
    line.put(0, "b0", {"n": 6})
    assert [*line.ready(), *line.rest()] == []


@pytest.mark.parametrize("how", ["failed", "never came"])
def test_a_step_with_a_hole_is_not_whole(how):
    line = Line()
    for key in "ab":
        line.expect(0, key)
    line.put(0, "a", {"n": 1})
    if how == "failed":
        line.drop(0, "b")
        assert released(line) == [(0, [1], False)]
    else:
        assert [(one.step, one.whole) for one in line.rest()] == [(0, False)]


def test_what_was_not_planned_is_shown_in_the_end_and_counts_as_whole():
    line = Line()
    line.put(5, "a", {"n": 1})
    assert [(one.step, one.whole) for one in line.rest()] == [(5, True)]


def test_series_of_one_step():
    def cell(part, metric, value, error, health="ok"):
        return {"part": part, "metric": metric, "value": value, "error": error, "health": health}

    named = series(
        [
            cell("L0H3", "llc", 1.0, 3.0),
            cell("L0H3", "llc", 2.0, 4.0, "suspect"),
            cell("L1H0", "llc", None, math.nan, "diverged"),
            cell("L0H3", "prev_token", 0.25, None),
            cell("L1H0", "prev_token", 0.5, 0.125),
        ]
    )
    assert named.pop("rllc/L0H3") == 1.5
    assert named.pop("error/L0H3") == 2.5  # √(9 + 16) / 2
    assert named.pop("health/L0H3") == 1
    assert math.isnan(named.pop("rllc/L1H0"))
    assert math.isnan(named.pop("error/L1H0"))
    assert named == {
        "health/L1H0": 3,
        "prev_token/L0H3": 0.25,
        "prev_token/L1H0": 0.5,
        "error/prev_token/L1H0": 0.125,
    }

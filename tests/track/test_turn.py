import pytest

from rllc.track import turn


def ended(folder, mode="online"):
    turns = turn.take(folder, mode)
    turns.end()
    return turns


def test_an_unfinished_online_turn_goes_on_and_everything_else_begins_anew(tmp_path):
    first = turn.take(tmp_path, "online")
    first.plan("p")
    second = turn.take(tmp_path, "online")
    second.plan("p")
    assert (first.mine.number, second.mine.number) == (1, 1)
    assert first.mine.sweep == second.mine.sweep
    assert turn.take(tmp_path, "offline").mine.number == 2
    assert turn.take(tmp_path, "offline").mine.number == 3
    assert turn.take(tmp_path, "online").mine.number == 4
    assert turn.take(tmp_path, "online").mine.number == 4
    assert turn.take(tmp_path, "online", again=True).mine.number == 5
    assert ended(tmp_path).mine.number == 5
    assert turn.take(tmp_path, "online").mine.number == 6
    assert turn.read(tmp_path / "turn.json").sweep == first.mine.sweep


def test_a_plan_that_has_grown_moves_to_the_next_number(tmp_path):
    turn.take(tmp_path, "online").plan("p")
    turns = turn.take(tmp_path, "online")
    turns.plan("q")
    assert turns.mine.number == 2
    assert turn.read(tmp_path / "turn.json").plan == "q"
    again = turn.take(tmp_path, "online")
    again.plan("q")
    assert again.mine.number == 2


def test_the_newest_has_the_turn_and_does_not_lose_it(tmp_path):
    first = turn.take(tmp_path, "online")
    first.check(0)
    second = turn.take(tmp_path, "online")
    for act in (lambda: first.check(0), first.end, lambda: first.plan("p")):
        with pytest.raises(turn.Displaced):
            act()
    first.check(60)  # not looked at again so soon
    second.check(0)
    second.end()
    second.check(0)


@pytest.mark.parametrize("text", ["", "[]", '{"number": 1}', '{"numb'])
def test_a_damaged_file_begins_anew_under_another_name(tmp_path, text):
    before = turn.take(tmp_path, "online").mine.sweep
    (tmp_path / "turn.json").write_text(text)
    mine = turn.take(tmp_path, "online").mine
    assert mine.number == 1
    assert mine.sweep not in ("", before)

from pathlib import Path

from rllc.tail import Tail


def test_new_lines_of_the_indexes_are_read_once_and_whole(tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text('{"key": "before"}\n')
    tail = Tail(tmp_path)
    tail.skip()
    assert list(tail.new()) == []
    with (tmp_path / "old.jsonl").open("a") as file:
        file.write('{"key": "a"}\n{"ke')
    (tmp_path / "new.jsonl").write_text('{"key": "b"}\n')
    assert sorted(line["key"] for line in tail.new()) == ["a", "b"]
    assert list(tail.new()) == []
    with (tmp_path / "old.jsonl").open("a") as file:
        file.write('y": "c"}\n{"torn\n{"key": "d"}\n')
    assert [line["key"] for line in tail.new()] == ["c", "d"]


def test_a_file_that_was_made_anew_is_read_from_its_start(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"key": "a"}\n{"key": "b"}\n')
    tail = Tail(tmp_path)
    assert [line["key"] for line in tail.new()] == ["a", "b"]
    (tmp_path / "a.jsonl").write_text('{"key": "b"}\n')
    assert [line["key"] for line in tail.new()] == ["b"]

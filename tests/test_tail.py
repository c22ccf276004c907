import json
from pathlib import Path

from rllc import store
from rllc.tail import Tail


def line(key: str) -> str:
    return json.dumps(dict.fromkeys(store.LINE) | {"key": key}) + "\n"


def test_new_lines_of_the_indexes_are_read_once_and_whole(tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text(line("before"))
    tail = Tail(tmp_path)
    tail.skip()
    assert list(tail.new()) == []
    with (tmp_path / "old.jsonl").open("a") as file:
        file.write(line("a") + line("c")[:-9])
    (tmp_path / "new.jsonl").write_text(line("b"))
    assert sorted(entry["key"] for entry in tail.new()) == ["a", "b"]
    assert list(tail.new()) == []
    with (tmp_path / "old.jsonl").open("a") as file:
        file.write(line("c")[-9:] + '{"torn\n{"key": "of something else"}\n' + line("d"))
    assert [entry["key"] for entry in tail.new()] == ["c", "d"]


def test_a_file_that_was_made_anew_is_read_from_its_start(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(line("a") + line("b"))
    tail = Tail(tmp_path)
    assert [entry["key"] for entry in tail.new()] == ["a", "b"]
    (tmp_path / "a.jsonl").write_text(line("b"))
    assert [entry["key"] for entry in tail.new()] == ["b"]

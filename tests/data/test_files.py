import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
import zstandard

from rllc.config import Dataset
from rllc.data import files
from rllc.mistake import Mistake

RECORDS: list[dict[str, Any]] = [
    {"text": "one", "meta": {"set": "Github", "tags": ["a", "b"]}, "n": 1},
    {"text": "zwei é", "meta": {"set": "Wiki", "tags": ["b"]}, "n": 2},
    {"text": None, "meta": {"set": "Wiki", "tags": []}, "n": 3},
    {"text": "four", "meta": {"set": "Github", "tags": []}, "n": 4},
]


def _write(path: Path, records: list[dict[str, Any]] = RECORDS) -> Path:
    lines = "".join(json.dumps(record) + "\n" for record in records).encode()
    if path.suffix == ".parquet":
        pa.parquet.write_table(pa.Table.from_pylist(records), path)
    else:
        pack = {".gz": gzip.compress, ".zst": zstandard.compress}.get(path.suffix, bytes)
        path.write_bytes(pack(lines))
    return path


def _read(path: Path, **options: Any) -> list[str]:
    return list(files.documents(Dataset("files", path=str(path), **options), files.paths(str(path))))


def _mistake(path: Path, **options: Any) -> str:
    with pytest.raises(Mistake) as error:
        _read(path, **options)
    return str(error.value)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.parquet"])
def test_records_of_every_kind(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path / name)
    assert _read(path) == ["one", "zwei é", "four"]
    assert _read(path, limit=2) == ["one", "zwei é"]
    assert _read(path, where='meta.set == "Github"') == ["one", "four"]
    assert _read(path, where='meta.set == "Github"', limit=1) == ["one"]
    assert _read(path, where="meta.tags == 'b'") == ["one", "zwei é"]
    assert _read(path, where="n == 4") == ["four"]


def test_a_flat_column_with_a_dot_in_its_name(tmp_path: Path) -> None:
    records = [{"contents": f"text {i}", "meta.set": "ab"[i % 2]} for i in range(6)]
    path = _write(tmp_path / "a.parquet", records)
    assert _read(path, text="contents", where='meta.set == "b"') == ["text 1", "text 3", "text 5"]


def test_a_folder_is_read_to_its_end_in_order(tmp_path: Path) -> None:
    (tmp_path / "b" / ".git").mkdir(parents=True)
    _write(tmp_path / "b" / "x.jsonl")
    for name in ("a.py", "c.md", "b/.hidden.py", "b/.git/x.py", "b/picture.png", "b/Z.TXT", "empty.py"):
        (tmp_path / name).write_text("" if name == "empty.py" else f"text of {name}")
    assert _read(tmp_path) == ["text of a.py", "text of b/Z.TXT", "one", "zwei é", "four", "text of c.md"]


def test_lone_surrogates_do_not_reach_the_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a\\ud800b"}\n')
    assert _read(path) == ["a?b"]


def test_wrong_paths(tmp_path: Path) -> None:
    assert _mistake(tmp_path / "no") == f"path: '{tmp_path / 'no'}' does not exist."
    (tmp_path / "a.csv").write_text("x")
    message = _mistake(tmp_path / "a.csv")
    assert message.startswith(f"path: '{tmp_path / 'a.csv'}' is neither a folder nor of the kinds .jsonl, .jsonl.gz, ")
    assert ".jsonl.zst, .parquet, .txt, .md or source code (.bash, .c, " in message
    assert _mistake(tmp_path).startswith(f"path: the folder {tmp_path} has no file of the kinds .jsonl,")
    (tmp_path / "a.txt").write_text("")
    assert _mistake(tmp_path / "a.txt") == f"path: '{tmp_path / 'a.txt'}' is empty."
    (tmp_path / "a.txt").write_text(" \n")
    assert _mistake(tmp_path / "a.txt") == f"path: '{tmp_path / 'a.txt'}' holds no text."
    assert _mistake(tmp_path) == f"path: '{tmp_path}' holds no text."


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": "cut', "path: {path}, line 3 is not valid JSON (Unterminated string starting at: line 1 column 10"),
        (b'"just text"', "path: {path}, line 3 holds a str, not an object with fields."),
        (b"null", "path: {path}, line 3 holds a NoneType, not an object with fields."),
        (b'{"body": "x", "id": 1}', "text: {path}, line 3 has no field 'text'; its fields are: body, id."),
        (b'{"text": 5}', "text: {path}, line 3 has a int in the field 'text', not text."),
        (b'{"text": "\xff"}', "path: {path} is not text: byte 28 is NUL or not UTF-8."),
        (b"{\0}", "path: {path} is not text: byte 19 is NUL or not UTF-8."),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "good"}\n\n' + line + b"\n")
    assert _mistake(path).startswith(message.format(path=path))


def test_a_missing_column_lists_those_there_are(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.parquet")
    assert _mistake(path, text="body") == f"text: {path} has no column 'body'; its columns are: text, meta, n."
    where = "lang.name == 'C'"
    assert _mistake(path, where=where) == f"where: {path} has no column 'lang'; its columns are: text, meta, n."


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl.gz", "a.jsonl.zst"])
def test_truncated_files_are_mistakes(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path / name)
    path.write_bytes(path.read_bytes()[:-9])
    assert _mistake(path) == f"path: {path} is truncated or damaged: it is not a whole {path.suffix} file."


def test_a_filter_that_keeps_nothing_shows_the_values(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.jsonl")
    head = f"keeps no document of '{path}'; values of"
    wrong, absent = 'meta.set == "GitHub"', 'lang == "C"'
    assert _mistake(path, where=wrong) == f"where: {wrong!r} {head} meta.set there: 'Github', 'Wiki'."
    assert _mistake(path, where=absent) == f"where: {absent!r} {head} lang there: none."


def test_a_filter_needs_records(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    message = _mistake(tmp_path / "a.txt", where='a == "b"')
    assert message.startswith("where: 'a == \"b\"' needs records (.jsonl, .jsonl.gz, .jsonl.zst, .parquet), but ")

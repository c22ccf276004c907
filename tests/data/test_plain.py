from pathlib import Path

import pytest

from rllc.data import plain
from rllc.mistake import Mistake


def test_a_file_is_one_document(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffGrüße\n\nzwei".encode())
    assert list(plain.documents(path)) == ["Grüße\n\nzwei"]


def test_a_large_file_is_cut_at_blank_lines(tmp_path: Path) -> None:
    paragraphs = [f"{i} é" * 1000 + "\n\n" for i in range(800)]
    path = tmp_path / "a.txt"
    path.write_text("".join(paragraphs), encoding="utf-8", newline="")
    found = list(plain.documents(path))
    assert "".join(found) == "".join(paragraphs)
    assert len(found) == 4
    assert all(len(text) <= plain.LARGE and text.endswith("\n\n") for text in found)


@pytest.mark.parametrize(("line", "ends"), [("x" * 99 + "\n", "\n"), ("x" * 100, "x")])
def test_without_blank_lines_it_is_cut_at_line_ends_or_anywhere(tmp_path: Path, line: str, ends: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(line * 15_000, encoding="utf-8")
    found = list(plain.documents(path))
    assert "".join(found) == line * 15_000
    assert len(found) == 2
    assert found[0].endswith(ends)


@pytest.mark.parametrize("offset", [0, 7, 2**20 - 1, 2**20, 2**20 + 5])
@pytest.mark.parametrize("bad", [b"\0", b"\xff"])
def test_the_first_byte_that_is_no_text_is_named(tmp_path: Path, offset: int, bad: bytes) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * offset + bad + b"rest")
    with pytest.raises(Mistake) as error:
        list(plain.documents(path))
    assert str(error.value) == f"path: {path} is not text: byte {offset} is NUL or not UTF-8."


@pytest.mark.parametrize("start", [2**20 - 1, 2**20 - 2, 50])
def test_a_cut_character_is_named_where_it_starts(tmp_path: Path, start: int) -> None:
    """The first byte of é stands last in a block, or last in the file."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * start + "é".encode() + b"y")
    assert "".join(plain.documents(path)) == "x" * start + "éy"
    path.write_bytes(b"x" * start + "é".encode()[:1])
    with pytest.raises(Mistake, match=f"byte {start} is"):
        list(plain.documents(path))

import gzip
import sys
from pathlib import Path

import pytest
import zstandard

from rllc.data import blocks
from rllc.mistake import Mistake

TEXT = b"".join(b"%d squared is %d\n" % (i, i * i) for i in range(200_000))  # several blocks


def test_compressed_files_hold_what_was_put_in(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT)
    (tmp_path / "a.gz").write_bytes(gzip.compress(TEXT[:99], 1) + gzip.compress(TEXT[99:], 1))
    frames = [zstandard.compress(TEXT[:1_000_000]), zstandard.compress(b""), zstandard.compress(TEXT[1_000_000:])]
    (tmp_path / "a.zst").write_bytes(b"".join(frames))
    for name in ("a.txt", "a.gz", "a.zst"):
        assert b"".join(blocks.blocks(tmp_path / name)) == TEXT


def test_lines_are_those_of_split(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for text in (TEXT, b"a\n\nb", b"\n", b"x" * 3_000_000 + b"\ny", b"a\r\nb\x0bc"):
        path.write_bytes(text)
        assert list(blocks.lines(path)) == text.removesuffix(b"\n").split(b"\n")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.gz", gzip.compress(TEXT, 1)[:-20]),
        ("a.gz", b"no gzip at all"),
        ("a.zst", zstandard.compress(TEXT)[:-20]),
        ("a.zst", zstandard.compress(TEXT)[:5]),
        ("a.zst", b"no zst at all"),
    ],
)
def test_damage_is_a_mistake(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(Mistake) as error:
        list(blocks.blocks(path))
    assert str(error.value) == f"path: {path} is truncated or damaged: it is not a whole {path.suffix} file."


def test_zst_without_the_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(zstandard.compress(TEXT))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(Mistake) as error:
        list(blocks.blocks(path))
    assert str(error.value) == f"path: {path} needs the package zstandard: install rllc[hub]."

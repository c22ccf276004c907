"""The bytes of a text file in blocks and lines, decompressed on the way."""

import gzip
import zlib
from collections.abc import Iterator

from rllc.data.shards import Damaged, Shard
from rllc.mistake import Mistake

_SIZE = 1 << 20  # bytes read at once


def blocks(path: Shard) -> Iterator[bytes]:
    """Yield the content of a plain, .gz or .zst file in blocks; raise Mistake where it is damaged or unreadable."""
    try:
        if path.suffix.lower() == ".zst":
            yield from _zst(path)
            return
        with path.open("rb") as raw:
            file = gzip.GzipFile(fileobj=raw) if path.suffix.lower() == ".gz" else raw
            while block := file.read(_SIZE):
                yield block
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise damaged(path) from error
    except OSError as error:
        raise Damaged(f"path: {path} cannot be read ({error.strerror or error}).") from error


def lines(path: Shard) -> Iterator[bytes]:
    """Yield the lines of a file without their line feeds; the last one may lack it."""
    pending: list[bytes] = []
    for block in blocks(path):
        *ended, rest = block.split(b"\n")
        for part in ended:
            yield b"".join([*pending, part])
            pending = []
        pending.append(rest)
    if tail := b"".join(pending):
        yield tail


def damaged(path: Shard) -> Damaged:
    """Build the mistake of a file that stops early or is not of the kind its name says."""
    return Damaged(f"path: {path} is truncated or damaged: it is not a whole {path.suffix.lower()} file.")


def binary(path: Shard, offset: int) -> Mistake:
    """Build the mistake of a file that is not text, with the first offending byte (after decompression)."""
    return Mistake(f"path: {path} is not text: byte {offset} is NUL or not UTF-8.")


def _zst(path: Shard) -> Iterator[bytes]:
    """Decompress frame after frame; a reader of the library itself would end silently at a truncated one."""
    try:
        import zstandard
    except ImportError as error:
        raise Mistake(f"path: {path} needs the package zstandard: install rllc[hub].") from error
    codec = zstandard.ZstdDecompressor(max_window_size=2**31)
    frame = None
    with path.open("rb") as file:
        while rest := file.read(_SIZE // 8):
            while rest:
                frame = frame or codec.decompressobj()
                try:
                    yield frame.decompress(rest)
                except zstandard.ZstdError as error:
                    raise damaged(path) from error
                rest = frame.unused_data
                if frame.eof:
                    frame = None
    if frame is not None:
        raise damaged(path)

"""Reads the local file of a W&B run, to see that what was logged is on the disk."""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

_BLOCK = 32768
_HEADER = struct.Struct("<4sHB")  # ":W&B", 0xBEE1, version
_CHUNK = struct.Struct("<IHB")  # checksum, length, kind: 1 whole, 2 first, 3 middle, 4 last


def records(path: Path) -> Iterator[bytes]:
    """Yield the serialized protobuf records up to the end or to the first damaged chunk (LevelDB log framing)."""
    data = path.read_bytes()
    if data[: _HEADER.size][:6] != b":W&B\xe1\xbe":
        return
    offset, begun = _HEADER.size, b""
    while offset + _CHUNK.size <= len(data):
        if _BLOCK - offset % _BLOCK < _CHUNK.size:  # too small for a chunk: padding
            offset += _BLOCK - offset % _BLOCK
            continue
        checksum, length, kind = _CHUNK.unpack_from(data, offset)
        body = data[offset + _CHUNK.size : offset + _CHUNK.size + length]
        if len(body) < length or zlib.crc32(body, zlib.crc32(bytes([kind]))) != checksum:
            return
        offset += _CHUNK.size + length
        begun += body
        if kind in (1, 4):
            yield begun
            begun = b""


def rows(path: Path) -> int:
    """Count the history rows on the disk; none in a file that is missing."""
    from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined]

    if not path.exists():
        return 0
    return sum(Record.FromString(record).WhichOneof("record_type") == "history" for record in records(path))

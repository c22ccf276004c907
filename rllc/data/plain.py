"""Plain text files as documents: one a file, and several where the file is large."""

import codecs
import itertools
from collections.abc import Iterator

from rllc.data.blocks import binary, blocks
from rllc.data.shards import Shard

LARGE = 1 << 20  # characters above which a file is cut into several documents


def documents(path: Shard) -> Iterator[str]:
    """Yield a UTF-8 file as one document; past `LARGE` characters it is cut at a blank line, else at a line end."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    pending, offset = "", 0
    for block in itertools.chain(blocks(path), [b""]):
        pending += _decode(decoder, block, path, offset)
        if offset == 0:
            pending = pending.removeprefix("\ufeff")
        offset += len(block)
        while len(pending) > LARGE:
            end = pending.rfind("\n\n", 0, LARGE) + 2
            end = end if end > 1 else pending.rfind("\n", 0, LARGE) + 1 or LARGE
            yield pending[:end]
            pending = pending[end:]
    if pending:
        yield pending


def _decode(decoder: codecs.IncrementalDecoder, block: bytes, path: Shard, offset: int) -> str:
    """Decode a block that starts `offset` bytes into the file; an empty block ends the file."""
    if (place := block.find(b"\0")) >= 0:
        raise binary(path, offset + place)
    try:
        return decoder.decode(block, final=not block)
    except UnicodeDecodeError as error:  # its object starts with what was left over from the block before
        raise binary(path, offset - (len(error.object) - len(block)) + error.start) from error

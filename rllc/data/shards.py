"""The files of a dataset on this machine or elsewhere, and reading them again where a connection or a file breaks."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal, Protocol, TypeVar

from rllc import atomic, hub
from rllc.mistake import Mistake, words

TRIES = 4
PAUSES = (1.0, 4.0, 15.0)  # seconds before each further try

Item = TypeVar("Item")


class Shard(Protocol):
    """A file: `pathlib.Path` is one."""

    @property
    def name(self) -> str:
        """The last part of its path."""

    @property
    def suffix(self) -> str:
        """The end of its name, from the last dot."""

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        """Open it."""


class Damaged(Mistake):
    """A file that stops early, cannot be read, or is not of the kind its name says."""


@dataclass(frozen=True)
class Remote:
    """A file of the hub, read as it is needed and never kept."""

    url: str

    @property
    def name(self) -> str:
        """The last part of its path."""
        return PurePosixPath(self.url).name

    @property
    def suffix(self) -> str:
        """The end of its name, from the last dot."""
        return PurePosixPath(self.url).suffix

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        """Open it."""
        import fsspec

        file: BinaryIO = fsspec.open(self.url, mode).open()
        return file

    def __str__(self) -> str:
        """Its address without the protocol."""
        return self.url.partition("://")[2] or self.url


def patiently(shard: Shard, read: Callable[[], Iterator[Item]]) -> Iterator[Item]:
    """Yield what `read` yields; where that breaks off, read again from the start and go on where it stopped.

    A file of this machine is read once: it will not mend itself.

    Raises:
        Mistake: it broke off each of TRIES times; the shard is named.
        OSError: the disk is full.
    """
    if isinstance(shard, Path):
        yield from read()
        return
    done = 0
    for attempt in range(1, TRIES + 1):
        try:
            for item in itertools.islice(read(), done, None):
                yield item
                done += 1
            return
        except Exception as error:
            if not _broken(error):
                raise
            if attempt == TRIES:
                reason = words(error).removeprefix("path: ")
                raise Mistake(
                    f"path: shard {shard} broke off after {done} documents, {TRIES} times in a row ({reason})."
                ) from None
            time.sleep(PAUSES[attempt - 1])


def _broken(error: Exception) -> bool:
    """Whether another try may help: what is wrong with the shard or the network, not with what was asked."""
    if isinstance(error, OSError) and error.errno in atomic.FULL:
        return False
    return isinstance(error, Damaged | OSError | EOFError) or hub.network(error)

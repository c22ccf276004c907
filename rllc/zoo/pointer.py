"""A checkpoint that is kept elsewhere, as in the cache of a hub: a small file that says where, and what it holds.

It lies where a run of rllc's own has its checkpoints (`checkpoints/step_0000100.json`), keeps the content hash, so that
a file of gigabytes is hashed once, and the model, where the files do not say it themselves.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from rllc import atomic
from rllc.mistake import Mistake
from rllc.zoo import arrays


@dataclasses.dataclass(frozen=True)
class Pointer:
    """Where a checkpoint is.

    Attributes:
        target: the file, or the folder as transformers writes it; absolute.
        origin: where it was taken from, for people.
        digest: 16 hexadecimal digits of the content.
        sizes: size and modification time (ns) of each file with weights when it was hashed.
        model: the fields of the model, where the files do not say them; else null.
    """

    target: str
    origin: str
    digest: str
    sizes: list[list[int]]
    model: dict[str, Any] | None = None


def write(path: Path, target: Path, *, origin: str, model: dict[str, Any] | None) -> None:
    """Hash a checkpoint and write the pointer to it."""
    found = Pointer(str(target.absolute()), origin, arrays.digest(target), _sizes(target), model)
    atomic.write_text(path, json.dumps(dataclasses.asdict(found), indent=1) + "\n")


def read(path: Path) -> Pointer:
    """Read a pointer whose files are there and as they were.

    Raises:
        Mistake: it is no pointer, or its files are gone or were changed.
    """
    found = _parse(path)
    if not Path(found.target).exists():
        raise Mistake(
            f"run: {path} points to {found.target} ({found.origin}), which is gone; its source brings it again."
        )
    if _sizes(Path(found.target)) != found.sizes:
        raise Mistake(f"run: {found.target} is no longer the file that was planned, which {path} points to.")
    return found


def whole(path: Path) -> bool:
    """Whether a pointer is there, and its files as they were."""
    try:
        read(path)
    except Mistake:
        return False
    return True


def _parse(path: Path) -> Pointer:
    try:
        return Pointer(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise Mistake(f"run: {path} does not exist.") from None
    except (ValueError, TypeError):
        raise Mistake(f"run: {path} does not point to a checkpoint.") from None


def _sizes(target: Path) -> list[list[int]]:
    return [[(stat := path.stat()).st_size, stat.st_mtime_ns] for path in arrays.files(target)]

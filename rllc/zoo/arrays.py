"""The arrays in the files of one checkpoint: memory-mapped, in any of the usual formats, and nothing in them executed.

A checkpoint is one file (.safetensors, or .pt, .pth, .bin of torch), or a folder as transformers writes it: one file
`model.safetensors` or `pytorch_model.bin`, or several with an index beside them.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rllc.mistake import Mistake, words

if TYPE_CHECKING:
    from torch import Tensor

WHOLE = ("model.safetensors", "pytorch_model.bin")  # in the order of preference
INDICES = tuple(f"{name}.index.json" for name in WHOLE)


def files(checkpoint: Path) -> list[Path]:
    """The files with the weights of a checkpoint.

    Raises:
        Mistake: it does not exist, lacks weights, or its index names a file that is not there.
    """
    if checkpoint.is_file():
        return [checkpoint]
    if not checkpoint.is_dir():
        raise Mistake(f"run: {checkpoint} does not exist.")
    for name, index in zip(WHOLE, INDICES, strict=True):
        if (checkpoint / name).is_file():
            return [checkpoint / name]
        if (checkpoint / index).is_file():
            return _shards(checkpoint / index)
    raise Mistake(f"run: {checkpoint} lacks the weights: there is no {', '.join([*WHOLE, *INDICES])} in it.")


def sharded(index: bytes, origin: str) -> list[str]:
    """The names of the files that the content of an index lists.

    Raises:
        Mistake: it is no index, or names a file outside its folder.
    """
    try:
        names = sorted(set(json.loads(index)["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Mistake(f"run: {origin} is not an index of files with weights.") from None
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise Mistake(f"run: {origin} names {name!r}, which is not a file beside it.")
    return names


def digest(checkpoint: Path) -> str:
    """16 hexadecimal digits of the SHA-256 of the file; of a folder, of its config.json and its files with weights."""
    found = files(checkpoint)
    if checkpoint.is_file():
        return sha256(checkpoint)[:16]
    config = [checkpoint / "config.json"] if (checkpoint / "config.json").is_file() else []
    return hashlib.sha256("".join(f"{path.name}:{sha256(path)};" for path in [*config, *found]).encode()).hexdigest()[
        :16
    ]


def sha256(path: Path) -> str:
    """The SHA-256 of a file, 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def shapes(checkpoint: Path) -> dict[str, "Shape"]:
    """The shape of each array by name; of safetensors without the values, and without torch.

    Raises:
        Mistake: as `read` does.
    """
    found: dict[str, Shape] = {}
    for path in files(checkpoint):
        if path.suffix == ".safetensors":
            from safetensors import safe_open

            with readable(path), safe_open(path, "np") as file:
                found |= {name: Shape(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        else:
            found |= {name: Shape(list(array.shape)) for name, array in _torch(path).items()}
    return found


def read(checkpoint: Path) -> "dict[str, Tensor]":
    """The arrays by name, memory-mapped: nothing is read from the disk before it is used.

    Raises:
        Mistake: a file is damaged, of no known format, no state dict, or holds code.
    """
    found: dict[str, Tensor] = {}
    for path in files(checkpoint):
        found |= _safetensors(path) if path.suffix == ".safetensors" else _torch(path)
    return found


def metadata(path: Path) -> dict[str, str]:
    """What a safetensors file says of itself; empty for other files and for folders.

    Raises:
        Mistake: the file is damaged.
    """
    from safetensors import safe_open

    if path.suffix != ".safetensors" or path.is_dir():
        return {}
    with readable(path), safe_open(path, "np") as file:
        return file.metadata() or {}


@dataclass(frozen=True)
class Shape:
    """What is known of an array before it is read."""

    shape: list[int]


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what safetensors says of a broken file into a sentence about the file."""
    from safetensors import SafetensorError

    if not path.is_file():
        raise Mistake(f"run: {path} does not exist.")
    try:
        yield
    except SafetensorError as error:
        raise Mistake(f"run: {path} is not a whole safetensors file ({error}).") from None


def _safetensors(path: Path) -> "dict[str, Tensor]":
    from safetensors import safe_open

    with readable(path), safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _torch(path: Path) -> "dict[str, Tensor]":
    """A state dict that torch saved; a file of the time before its zip format is read whole."""
    import pickle
    import zipfile

    import torch

    if not path.is_file():
        raise Mistake(f"run: {path} does not exist.")
    try:
        state = torch.load(path, "cpu", weights_only=True, mmap=zipfile.is_zipfile(path) or None)
    except (pickle.UnpicklingError, EOFError, RuntimeError, KeyError, ValueError) as error:
        raise Mistake(f"run: {path} {_reason(error)}.") from None
    if not isinstance(state, dict) or not all(isinstance(array, torch.Tensor) for array in state.values()):
        raise Mistake(f"run: {path} holds no state dict, names with tensors.")
    return {str(name): array for name, array in state.items()}


def _reason(error: Exception) -> str:
    """Why torch could not read a file; what it says of code has advice to run it, which is not repeated."""
    text = words(error)
    if match := re.search(r"Unsupported (?:global|class|operand).*?([\w.]+\.[\w.]+)", text):
        return f"cannot be read as a state dict: it holds code ({match[1]}), which is never executed"
    return f"cannot be read as a state dict ({text.split('. ')[0]})"


def _shards(index: Path) -> list[Path]:
    found = [index.parent / name for name in sharded(index.read_bytes(), str(index))]
    for path in found:
        if not path.is_file():
            raise Mistake(f"run: {index} lists {path.name}, which is not there.")
    return found

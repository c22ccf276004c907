"""A folder of state dicts of a torch module, one file a step, as .pt, .pth or .safetensors.

The step is the last number in the file's name (`net_0100.pt`, `epoch=3-step=100.pt`); the files lie in the folder or in
its `checkpoints/`. Nothing in them is executed (`weights_only`).
"""

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rllc.mistake import Mistake

if TYPE_CHECKING:
    from torch import Tensor, nn

_NAME = re.compile(r".*?(\d+)\.(pt|pth|safetensors)")


def checkpoints(folder: Path) -> dict[int, Path]:
    """The saved steps in order, each with its file.

    Raises:
        Mistake: there is no such folder, no checkpoint in it, or two files of one step.
    """
    for place in (folder / "checkpoints", folder):
        found: dict[int, Path] = {}
        for path in sorted(place.iterdir()) if place.is_dir() else []:
            if match := _NAME.fullmatch(path.name):
                if other := found.get(int(match[1])):
                    raise Mistake(f"path: {place} has two files of step {int(match[1])}: {other.name}, {path.name}.")
                found[int(match[1])] = path
        if found:
            return dict(sorted(found.items()))
    raise Mistake(f"path: {folder} has no files named …<step>.pt, .pth or .safetensors.")


def digest(path: Path) -> str:
    """16 hexadecimal digits of the SHA-256 of the file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def put(path: Path, module: "nn.Module") -> None:
    """Load a file into a module that has all its names and shapes.

    Raises:
        Mistake: the file is damaged, is no state dict, or that of another module.
    """
    try:
        module.load_state_dict(_read(path))
    except Mistake:
        raise
    except RuntimeError as error:  # what torch says of another module has a line for each name
        raise Mistake(f"path: {path} does not fit the module: {' '.join(str(error).split())}") from None


def _read(path: Path) -> "dict[str, Tensor]":
    import pickle

    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        state = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, EOFError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Mistake(f"path: {path} cannot be read as a state dict ({reason}).") from None
    if not isinstance(state, dict) or not all(isinstance(array, torch.Tensor) for array in state.values()):
        raise Mistake(f"path: {path} holds no state dict, names with tensors.")
    return state

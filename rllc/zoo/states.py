"""State dicts of a user's own torch module, one file a step: put into the module that has their names and shapes."""

from pathlib import Path
from typing import TYPE_CHECKING

from rllc.mistake import Mistake, words
from rllc.zoo import arrays

if TYPE_CHECKING:
    from torch import nn


def put(path: Path, module: "nn.Module") -> None:
    """Load a file into a module.

    Raises:
        Mistake: the file is damaged, is no state dict, or that of another module.
    """
    try:
        module.load_state_dict(arrays.read(path))
    except RuntimeError as error:  # what torch says of another module has a line for each name
        raise Mistake(f"path: {path} does not fit the module: {words(error)}.") from None

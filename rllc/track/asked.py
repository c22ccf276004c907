"""Whether tracking is asked for, and whether it can start."""

import importlib.util
import os

from rllc.config import Track
from rllc.mistake import Mistake


def shown(track: Track) -> bool:
    """Whether anything is shown: asked for, and not switched off by WANDB_MODE=disabled."""
    return track.kind == "wandb" and os.environ.get("WANDB_MODE") != "disabled"


def check(track: Track) -> None:
    """Raise Mistake if tracking is asked for and cannot start; to be called before any work."""
    if shown(track) and importlib.util.find_spec("wandb") is None:
        raise Mistake("track=wandb: wandb is not installed; pip install 'rllc[wandb]'.")

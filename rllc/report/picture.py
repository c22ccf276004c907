"""One figure of the report: what it is called, what it shows, and how it is drawn."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """A figure that is drawn when it is needed.

    Attributes:
        section: heading of the page under which it stands.
        name: of its files, without a suffix.
        title: what it shows, in a few words.
        caption: what is seen, axes and units.
        draw: makes the figure, inside `style.settings`.
    """

    section: str
    name: str
    title: str
    caption: str
    draw: "Callable[[], Figure]"


def name(*pieces: str) -> str:
    """Join pieces to a name that every file system takes."""
    return re.sub(r"[^A-Za-z0-9._=,+-]+", "_", "-".join(pieces)).lstrip(".")[:80]

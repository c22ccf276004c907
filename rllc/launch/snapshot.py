"""A copy of the package's code, so that workers that start later run what was submitted."""

import shutil
from pathlib import Path

import rllc
from rllc import atomic, version


def take(folder: Path) -> None:
    """Copy the package into a folder, with what is known of its code."""
    package = Path(rllc.__file__).parent
    shutil.copytree(package, folder / "rllc", ignore=shutil.ignore_patterns("__pycache__"))
    atomic.write_text(folder / "rllc" / version.COPY, version.code())

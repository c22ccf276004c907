"""Keeps what tells one machine or its user from another out of what is sent: paths, host, and how jobs are started."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LOCAL = ("root", "launch", "track")  # what says where and how in a configuration, and changes no number
_PATH = re.compile(r"(?<![\w./:~])(?:~|/)[\w.+@=,-]*(?:/[\w.+@=,-]+)+/?")


def hide(value: Any, root: Path) -> Any:
    """Copy nested values with each absolute path relative to the root folder, or, outside it, cut to "…/<name>"."""
    if isinstance(value, Mapping):
        return {name: hide(inner, root) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [hide(inner, root) for inner in value]
    if not isinstance(value, str):
        return value
    if value.startswith(("/", "~")) and "\n" not in value and "://" not in value:
        return _short(value, root)
    return _PATH.sub(lambda found: _short(found[0], root), value.replace(f"{root}/", ""))


def _short(path: str, root: Path) -> str:
    whole = Path(os.path.expanduser(path))  # noqa: PTH111 - a path that cannot be expanded stays as it is
    if whole.is_relative_to(root):
        return str(whole.relative_to(root))
    return f"…/{whole.name}" if whole.name else "/"

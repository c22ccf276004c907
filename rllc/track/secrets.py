"""Keeps passwords and keys out of what is shown: by the name of the setting, and by what the environment holds."""

import os
import re
from collections.abc import Mapping
from typing import Any

MASK = "***"
_NAME = re.compile(r"(_key|apikey|secret|token|password|passwd|credentials?)$", re.IGNORECASE)
_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")
_SHORTEST = 8  # a shorter value would blank out ordinary words


def hide(value: Any, environ: Mapping[str, str] = os.environ) -> Any:
    """Copy nested settings with every secret masked.

    A secret is a text under a name such as `api_key` or `token`, any piece of text equal to an environment variable
    of such a name, and the login in a URL.
    """
    known = {text for name, text in environ.items() if _NAME.search(name) and len(text) >= _SHORTEST}
    return _masked(value, sorted(known, key=len, reverse=True))


def sentence(raised: Exception) -> str:
    """The kind of an exception and the first line of what it says, without secrets."""
    first = (str(raised).splitlines() or [""])[0].rstrip(".")
    return str(hide(f"{type(raised).__name__}: {first}".removesuffix(": ")))


def _masked(value: Any, known: list[str]) -> Any:
    if isinstance(value, Mapping):
        return {
            _masked(name, known): MASK if isinstance(inner, str) and _NAME.search(str(name)) else _masked(inner, known)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_masked(inner, known) for inner in value]
    if not isinstance(value, str):
        return value
    for secret in known:
        value = value.replace(secret, MASK)
    return _LOGIN.sub(f"{MASK}@", value)

"""Hydra: from the command line's overrides to one resolved `Config` for each job, and its errors to one sentence."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rllc import resolve
from rllc.config import Config
from rllc.mistake import Mistake

if TYPE_CHECKING:
    from omegaconf import DictConfig


def run(verb: str, overrides: Sequence[str], act: Callable[[Config], int]) -> int:
    """Let Hydra read the overrides and call `act` with the configuration of each job; the highest exit code.

    Raises:
        Mistake: an override names no key, no option of a group, or a value out of its range.
    """
    import hydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    for word in overrides:
        _check_override(word)
    codes: list[int] = []
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # let exceptions through instead of printing them
    sys.argv = [f"rllc {verb}", *overrides]
    task = hydra.main(version_base="1.3", config_path="pkg://rllc.conf", config_name="config")(
        lambda config: codes.append(act(_config(config)))
    )
    try:
        task()
    except (HydraException, OmegaConfBaseException) as error:
        raise Mistake(_sentence(error)) from None
    return max(codes, default=0)


def compose(overrides: Sequence[str] = ()) -> Config:
    """The configuration that these overrides give, without running anything: for notebooks and tests."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_module
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    for word in overrides:
        _check_override(word)
    try:
        with initialize_config_module("rllc.conf", version_base="1.3"):
            return resolve.config(_plain(hydra_compose("config", list(overrides))))
    except (HydraException, OmegaConfBaseException) as error:
        raise Mistake(_sentence(error)) from None


def _config(composed: "DictConfig") -> Config:
    """One job's configuration; in a multirun the sweep's name carries the job's other overrides."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    values = _plain(composed)
    hydra = HydraConfig.get()
    if hydra.mode == RunMode.MULTIRUN:
        own = [word.lstrip("+") for word in hydra.overrides.task if not word.startswith(("name=", "root="))]
        values["name"] = "-".join([values["name"], *(re.sub(r"[^A-Za-z0-9._=,+-]", "_", word) for word in own)])
    return resolve.config(values)


def _plain(composed: "DictConfig") -> dict[str, Any]:
    from omegaconf import OmegaConf

    values = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def _check_override(word: str) -> None:
    """Refuse an override of a key that does not exist, before Hydra answers at length."""
    key, equals, _ = word.partition("=")
    key = key.lstrip("+~")
    if word.startswith("-") or not (equals or word.startswith("~")) or re.search(r"[@/:]", key):
        return
    if key.partition(".")[0] not in ("hydra", "experiment"):
        resolve.known_key(key)


def _sentence(error: Exception) -> str:
    """What Hydra or OmegaConf says, on one line, without hints on Hydra's internals."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kept = [
        line
        for line in lines
        if not re.match(r"(full_key|object_type|reference_type|Config search path|Set the env)", line)
    ]
    kept = [line for line in kept if not line.startswith(("provider=", "To append", "Key '"))] or kept
    text = " ".join(kept)
    if found := re.search(r"Could not find '([^/']+)/([^']+)'.*?Available options in '[^']+':\s*(.*)", text):
        return f"{found[1]}: {found[2]!r} is not one of: {', '.join(found[3].split())}."
    if found := re.search(r"Missing mandatory value: (\S+)", text):
        return f"{found[1]}: no value is given."
    return text.rstrip(".") + "."

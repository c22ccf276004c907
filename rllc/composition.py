"""Hydra: from the command line's overrides to one resolved `Config` for each job, and its errors to one sentence."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rllc import resolve, schema
from rllc.config import Config
from rllc.mistake import Mistake, unknown

if TYPE_CHECKING:
    from omegaconf import DictConfig

GROUPS = ("model", "data", "source", "sampler", "launch", "cluster", "track", "experiment")
FLAGS = ("-h", "--help", "--hydra-help", "-c", "--cfg", "--resolve", "-m", "--multirun", "-cd", "--config-dir")
VALUED = ("-c", "--cfg", "-cd", "--config-dir")  # flags that take the next word


def run(verb: str, overrides: Sequence[str], act: Callable[[Config], int]) -> int:
    """Let Hydra read the overrides, then call `act` with the configuration of each job; the highest exit code.

    Raises:
        Mistake: an override names no key, no option of a group, or a value out of its range; no job was begun.
    """
    import hydra
    from hydra.core.hydra_config import HydraConfig

    searched = any(word.partition("=")[0] in ("-cd", "--config-dir") for word in overrides)
    for word in overrides:
        _check_override(word, shipped=not searched)
    jobs: list[tuple[DictConfig, list[str]]] = []
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # let exceptions through instead of printing them
    sys.argv = [f"rllc {verb}", *_flags_first(overrides)]
    task = hydra.main(version_base="1.3", config_path="pkg://rllc.conf", config_name="config")(
        lambda composed: jobs.append((composed, list(HydraConfig.get().overrides.task)))
    )
    with _in_a_sentence():
        task()
    shared = {word for word in overrides if all(word in words for _, words in jobs)}
    configs = [_config(composed, [word for word in words if word not in shared]) for composed, words in jobs]
    return max((act(config) for config in configs), default=0)


def compose(overrides: Sequence[str] = ()) -> Config:
    """The configuration that these overrides give, without running anything: for notebooks and tests."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_module

    for word in overrides:
        _check_override(word, shipped=True)
    with _in_a_sentence(), initialize_config_module("rllc.conf", version_base="1.3"):
        return resolve.config(_plain(hydra_compose("config", list(overrides))))


def _config(composed: "DictConfig", own: Sequence[str]) -> Config:
    """One job's configuration; the sweep's name carries the overrides that are this job's own in a multirun."""
    with _in_a_sentence():
        values = _plain(composed)
    named = [word.lstrip("+") for word in own if not word.startswith(("name=", "root="))]
    if named:
        values["name"] = "-".join([str(values["name"]), *(re.sub(r"[^A-Za-z0-9._=,+-]", "_", word) for word in named)])
    return resolve.config(values)


def _plain(composed: "DictConfig") -> dict[str, Any]:
    from omegaconf import OmegaConf

    values = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def _flags_first(words: Sequence[str]) -> list[str]:
    """The words with the flags, and what is shown by --cfg, before the overrides, where alone Hydra takes them."""
    is_flag = [word.startswith("-") or before in VALUED for before, word in pairwise(["", *words])]
    return [word for first in (True, False) for word, flag in zip(words, is_flag, strict=True) if flag == first]


def _check_override(word: str, *, shipped: bool) -> None:
    """Refuse an override of a key or option that does not exist, before Hydra answers at length.

    `shipped` says that all options of the groups are those that come with rllc.
    """
    if word.startswith("-") and word.partition("=")[0] not in FLAGS:
        raise unknown("flag", word, FLAGS)
    key, equals, value = word.partition("=")
    key = key.lstrip("+~")
    if word.startswith("-") or not (equals or word.startswith("~")) or re.search(r"[@/:]", key):
        return
    if key in GROUPS and equals:
        if shipped:
            _check_options(key, value)
    elif key.partition(".")[0] not in ("hydra", "experiment"):
        schema.known_key(Config, key)


def _check_options(group: str, value: str) -> None:
    """Refuse a name that is no option of the group; what is no plain list of names is left to Hydra."""
    folder = resources.files("rllc.conf") / group
    legal = sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))
    if not re.search(r"[({$]", value):
        for name in value.strip("[]").split(","):
            if name.strip(" '\"") not in legal:
                raise unknown(group, name, legal)


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    """Turn what Hydra or OmegaConf raises into a mistake on one line, without hints on Hydra's internals."""
    from hydra.errors import HydraException, OverrideParseException
    from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

    try:
        yield
    except MissingMandatoryValue as error:
        raise Mistake(f"{error.full_key}: no value is given.") from None
    except OverrideParseException as error:
        raise Mistake(f"{error.override!r} is not an override; write key=value, as sampler.gamma=100.") from None
    except (HydraException, OmegaConfBaseException) as error:
        if found := re.match(r"Could not override '([^']+)'", str(error)):
            raise Mistake(f"{found[1]}: the groups that are chosen have no such key.") from None
        lines = [line.strip() for line in str(error).partition("Config search path")[0].splitlines()]
        kept = [line for line in lines if line and not line.startswith(("full_key", "object_type", "reference_type"))]
        raise Mistake(" ".join(kept).rstrip(".") + ".") from None

"""Curves of the refined local learning coefficient over a training run, with honest error bars."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rllc.mistake import Mistake
    from rllc.notebook import Sweep, estimate, estimate_module, load
    from rllc.task import Estimate, Sampler

__all__ = ["Estimate", "Mistake", "Sampler", "Sweep", "estimate", "estimate_module", "load"]

_HOME = {
    "Mistake": "mistake",
    "Sampler": "task",
    "Estimate": "task",
    "Sweep": "notebook",
    "estimate": "notebook",
    "estimate_module": "notebook",
    "load": "notebook",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for only then: `import rllc` costs nothing."""
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module 'rllc' has no attribute {name!r}")
    return getattr(importlib.import_module(f"rllc.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

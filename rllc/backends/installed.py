"""Whether a backend can be used here with these options, found out before any work."""

import importlib.util

from rllc.mistake import Mistake
from rllc.task import Sampler


def check(sampler: Sampler) -> None:
    """Refuse a backend that cannot be loaded here, or cannot do what is asked.

    Raises:
        Mistake: its package is not installed, or its release lacks the method or option.
    """
    if sampler.backend == "jax" and importlib.util.find_spec("jax") is None:
        raise Mistake("sampler.backend: jax is not installed; pip install 'rllc[jax]'.")
    if sampler.backend == "devinterp":
        from rllc.backends import devinterp

        devinterp.check(sampler)

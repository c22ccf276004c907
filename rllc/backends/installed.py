"""Whether what a backend needs is installed, found out without loading it."""

import importlib.util

from rllc.mistake import Mistake

EXTRAS = ("jax", "devinterp")  # backends that come with an extra of the package of the same name


def check(backend: str) -> None:
    """Refuse a backend that cannot be loaded here.

    Raises:
        Mistake: its package is not installed; the sentence says how to get it.
    """
    if backend in EXTRAS and importlib.util.find_spec(backend) is None:
        raise Mistake(f"sampler.backend: {backend} is not installed; pip install 'rllc[{backend}]'.")

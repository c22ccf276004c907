import importlib.util

import pytest

from rllc.backends import installed
from rllc.mistake import Mistake
from rllc.task import Sampler


def with_backend(backend, **changes):
    return Sampler(1e-3, 30.0, 200.0, 4, 40, 0, 8, backend=backend, **changes)


def test_a_backend_that_is_not_there_is_refused_with_its_cure(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jax" else object())
    installed.check(with_backend("torch"))
    with pytest.raises(Mistake, match=r"^sampler.backend: jax is not installed; pip install 'rllc\[jax\]'\.$"):
        installed.check(with_backend("jax"))


def test_what_devinterp_gets_wrong_is_refused():
    with pytest.raises(Mistake, match=r"^sampler.method: "):
        installed.check(with_backend("devinterp", method="sgnht"))

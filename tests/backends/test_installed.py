import importlib.util

import pytest

from rllc.backends import installed
from rllc.mistake import Mistake


def test_a_backend_that_is_not_there_is_refused_with_its_cure(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jax" else object())
    installed.check("torch")
    installed.check("devinterp")
    with pytest.raises(Mistake, match=r"^sampler.backend: jax is not installed; pip install 'rllc\[jax\]'\.$"):
        installed.check("jax")

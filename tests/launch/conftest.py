import os
from pathlib import Path

import pretended
import pytest


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pretended.Site:
    """A Slurm on PATH that is none."""
    found = pretended.build(tmp_path / "site")
    monkeypatch.setenv("PATH", f"{found.folder / 'bin'}:{os.environ['PATH']}")
    return found

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from tiny import Job, text

os.environ.setdefault("RLLC_CACHE", f"{tempfile.gettempdir()}/rllc-tests-{os.getuid()}")  # of compiled programs
os.environ.setdefault("MKL_CBWR", "AUTO")  # as the workers have it; before torch is imported


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of text for the tiny job."""
    return text(tmp_path_factory.mktemp("corpus") / "text.jsonl")


@pytest.fixture(scope="session")
def trained_root(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Path:
    """A root folder with the trained run of the tiny job; not to be changed."""
    root = tmp_path_factory.mktemp("trained") / "root"
    done = Job(root, corpus).do("train")
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture
def fresh(tmp_path: Path, corpus: Path) -> Job:
    """The tiny job with nothing done."""
    return Job(tmp_path / "root", corpus)


@pytest.fixture
def job(tmp_path: Path, corpus: Path, trained_root: Path) -> Job:
    """The tiny job with its run trained, in a root folder of its own."""
    shutil.copytree(trained_root, tmp_path / "root")
    return Job(tmp_path / "root", corpus)

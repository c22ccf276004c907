import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hub import Hub, directed, serving
from tiny import Job, text

if TYPE_CHECKING:
    from rllc.config import Source

os.environ.setdefault("RLLC_CACHE", f"{tempfile.gettempdir()}/rllc-tests-{os.getuid()}")  # of compiled programs
os.environ.setdefault("MKL_CBWR", "AUTO")  # as the workers have it; before torch is imported
os.environ.setdefault("OMP_NUM_THREADS", "1")  # likewise: some tests ask for equal bits
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")  # of a clustering: the other cores have tests of their own


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One process more than there are cores where the drills on Slurm run, which mostly wait; else as usual."""
    drills = "not slurm" not in config.option.markexpr and shutil.which("slurmctld")
    return (os.cpu_count() or 1) + 1 if drills else None


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


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """An empty hub that the client libraries ask, with an empty cache."""
    with serving() as empty:
        directed(monkeypatch, empty.url, str(tmp_path / "cache"))
        yield empty


@pytest.fixture
def paper(hub: Hub) -> "Source":
    """A repository in the layout of the paper's, and that of its tokenizer."""
    from layouts import SHAPE, TOKENIZER, lens_state, packed, tiny_attn

    from rllc.config import Source

    files = {f"checkpoints/checkpoint_{step:07d}.pth": packed(lens_state(step)) for step in tiny_attn.STEPS}
    hub.put("timaeus/tiny", {**files, "losses.txt": b"step,loss\n", ".gitattributes": b""})
    hub.put("timaeus/tokens", {"tokenizer.json": TOKENIZER})
    pattern = "checkpoints/checkpoint_{step}.pth"
    return Source(repos=["timaeus/tiny"], file=pattern, model=SHAPE, tokenizer="timaeus/tokens", bos=511)

"""A sweep small enough to be run as a whole in a test, through the command line, and what watches its processes."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from rllc import store

WORDS = ("loss", "head", "layer", "token", "weight", "chain", "draw", "step", "part", "trace", "def", "return", "for")
MODEL = {"n_layers": 2, "n_heads": 3, "d_model": 8, "d_head": 4, "n_ctx": 16, "d_vocab": 300}
THREADS = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}


def text(path: Path, *, lines: int = 300, seed: int = 0) -> Path:
    """Write records of words and numbers, the same for the same seed."""
    rng = random.Random(seed)
    words = (
        " ".join(f"{rng.choice(WORDS)} {rng.randrange(10**6)}" for _ in range(rng.randint(5, 30))) for _ in range(lines)
    )
    path.write_text("".join(json.dumps({"text": line}) + "\n" for line in words))
    return path


def attention(job: "Job") -> dict[str, object]:
    """The overrides of a small attention model trained on the job's text."""
    return {
        "root": job.root, "name": "tiny", "run": "tiny", "data": "[files]", "data.files.path": job.text,
        "data.files.pool": 32, "train.data": "files", **{f"model.{name}": value for name, value in MODEL.items()},
        "train.steps": 20, "train.batch": 4, "train.checkpoints.every": 10, "train.checkpoints.log": 0,
        "grid.steps": "null", "sampler.chains": 2, "sampler.draws": 3, "sampler.burn_in": 0, "sampler.batch": 2,
        "cluster.methods": "[kmeans]", "cluster.scalings": "[standardize]", "cluster.k_range": "[2]",
        "cluster.null_draws": 1, "cluster.n_init": 1, "launch.workers": 1,
    }  # fmt: skip


def elsewhere(job: "Job") -> dict[str, object]:
    """The same without the key that only processes of this machine have."""
    return {name: value for name, value in attention(job).items() if name != "launch.workers"}


@dataclass(frozen=True)
class Job:
    """A small real sweep under a root folder of its own, run through the command line beside that folder."""

    root: Path
    text: Path
    options: dict[str, object] = field(default_factory=dict)
    defaults: "Callable[[Job], dict[str, object]]" = attention

    @property
    def sweep(self) -> Path:
        return self.root / "sweeps" / str(self.options.get("name", "tiny"))

    @property
    def run_folder(self) -> Path:
        return self.root / "runs" / f"{self.options.get('run', 'tiny')}-s0"

    def words(self, *more: str, **changes: object) -> list[str]:
        """The overrides; `more` come after them, so that they win."""
        options = {**self.defaults(self), **self.options, **changes}
        return [*(f"{key}={value}" for key, value in options.items()), *more]

    def start(self, verb: str, *more: str, **changes: object) -> "subprocess.Popen[str]":
        """Start a verb in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-c", "import sys; from rllc.cli import main; sys.exit(main())", verb,
             *self.words(*more, **changes)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.root.parent, start_new_session=True,
            env={**os.environ, **THREADS},
        )  # fmt: skip

    def do(self, verb: str, *more: str, **changes: object) -> "subprocess.CompletedProcess[str]":
        """Run a verb to its end."""
        process = self.start(verb, *more, **changes)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def results(self) -> dict[str, bytes]:
        """The content of every result file by its name."""
        return {path.name: path.read_bytes() for path in self.sweep.glob("results/*/*.npz")}


def descendants(pid: int) -> list[int]:
    """The processes that a process has started and that live, from the process table."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            parents.setdefault(int(parent), []).append(int(stat.parent.name))
    return [one for child in parents.get(pid, []) for one in (child, *descendants(child))]


def alive(pids: list[int]) -> list[int]:
    """Those of the processes that still run."""
    found = []
    for pid in pids:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(pid)
        except OSError:
            continue
    return found


def until(condition: Callable[[], object], *, seconds: float = 120.0, every: float = 0.01) -> None:
    """Wait for a condition."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not come about"
        time.sleep(every)


def same(one: Job, other: Job) -> None:
    """Check that two sweeps hold the same numbers to the bit."""
    assert store.keys(one.sweep) == store.keys(other.sweep)
    for key in store.keys(one.sweep):
        ours, theirs = store.get(one.sweep, key), store.get(other.sweep, key)
        assert np.float64(ours.value).tobytes() == np.float64(theirs.value).tobytes()
        assert ours.chains_C.tobytes() == theirs.chains_C.tobytes()
        assert ours.loss_CS.tobytes() == theirs.loss_CS.tobytes()
        assert ours.stats == theirs.stats
    tables = [
        parquet.read_table(each.sweep / "estimates.parquet").drop_columns(["seconds", "code"]).to_pylist()
        for each in (one, other)
    ]
    assert repr(tables[0]) == repr(tables[1])  # NaN is NaN here, and every float is printed to the bit


def mount(folder: Path, *options: str) -> None:
    """Mount an empty file system in memory on a folder; skip the test where that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(folder)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("a small file system can be mounted by root only")


@contextmanager
def ended(process: "subprocess.Popen[str]") -> Iterator[None]:
    """Leave nothing of a process and what it started behind, whatever a test finds."""
    try:
        yield
    finally:
        left = [process.pid, *descendants(process.pid)]
        for pid in alive(left):
            os.kill(pid, signal.SIGKILL)
        process.communicate()

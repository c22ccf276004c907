"""A sweep over a run and two datasets of the hub through the command line, which finds the hub by HF_ENDPOINT."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hub import Hub
from layouts import TOKENIZER, neox, transformers_files
from tiny import THREADS

from rllc import store
from rllc.config import Source

SHAPE = {"n_layers": 2, "n_heads": 8, "d_model": 64, "d_head": 8, "n_ctx": 64, "d_vocab": 512}


def rllc(root: Path, url: str, verb: str, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {"HF_ENDPOINT": url, "HF_HOME": str(root / "hf"), "HF_HUB_DISABLE_XET": "1"}
    return subprocess.run(
        [sys.executable, "-c", "import sys; from rllc.cli import main; sys.exit(main())", verb, f"root={root}", *words],
        capture_output=True, text=True, timeout=300, cwd=root, check=False,
        env={**os.environ, **THREADS, **environment},
    )  # fmt: skip


def texts(hub: Hub, repo: str, field: str) -> None:
    """Two shards of records in the layout of a dataset of the hub."""
    for_part = [
        "".join(
            json.dumps({field: f"def f{part}{number}(x): return {field} + {number}\n" * 9}) + "\n"
            for number in range(200)
        )
        for part in range(2)
    ]
    files = {f"data/train-{part:05d}-of-00002.jsonl": text.encode() for part, text in enumerate(for_part)}
    hub.put(repo, files, kind="datasets")


SMALL = (
    "name=tiny", "grid.metrics=[llc]", "sampler.chains=2", "sampler.draws=3", "sampler.burn_in=0", "sampler.batch=2",
    "launch.workers=1", "stages=[train,plan,launch,gather]",
)  # fmt: skip


@pytest.mark.slow
def test_the_papers_layout(paper: Source, hub: Hub, tmp_path: Path) -> None:
    texts(hub, "timaeus/dsir-pile-1m-2", "contents")
    texts(hub, "timaeus/pile-github", "text")
    words = [
        "source=paper", f"source.repos={paper.repos}", f"source.tokenizer={paper.tokenizer}", "source.bos=511",
        *(f"source.model.{name}={value}" for name, value in SHAPE.items()), "data=[dsir_pile,pile_github]",
        "data.dsir_pile.pool=16", "data.pile_github.pool=16", "grid.steps=[0,990]", "grid.parts=[L0H6,L1H4]", *SMALL,
    ]  # fmt: skip
    root = tmp_path / "root"
    root.mkdir()
    told = rllc(root, hub.url, "runs", *words)
    assert "3 steps: 0, 1000, 1600" in told.stdout, told.stderr
    done = rllc(root, hub.url, "sweep", *words)
    assert done.returncode == 0, done.stderr
    assert "run tiny lacks 1 of them; nearest: 990 → 1000" in done.stderr
    results = store.keys(root / "sweeps" / "tiny")
    assert len(results) == 8
    again = rllc(root, "http://127.0.0.1:9", "sweep", *words)  # the hub is gone
    assert again.returncode == 0, again.stderr
    assert "all 8 tasks are done" in again.stdout


@pytest.mark.slow
def test_pythias_layout(hub: Hub, tmp_path: Path) -> None:
    texts(hub, "NeelNanda/pile-10k", "text")
    for step in (0, 512):
        files = transformers_files(neox(step), tmp_path / f"made{step}")
        hub.put("EleutherAI/tiny", {**files, "tokenizer.json": TOKENIZER}, revision=f"step{step}")
    root = tmp_path / "root"
    root.mkdir()
    done = rllc(
        root, hub.url, "sweep", "source=pythia", "source.repos=[EleutherAI/tiny]", "source.context=32",
        "data=[pile10k]", "data.pile10k.pool=16", "grid.steps=null", "grid.parts=[L0H1,L1H3,'L*.mlp',embed]", *SMALL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [store.get(root / "sweeps" / "tiny", key) for key in store.keys(root / "sweeps" / "tiny")]
    assert {(one.task.step, one.task.part) for one in found} == {
        (step, part) for step in (0, 512) for part in ("L0H1", "L1H3", "L*.mlp", "embed")
    }
    assert all(one.value == one.value for one in found)

"""A training small enough for a test: its settings, its folder, and what it leaves."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from rllc import train
from rllc.config import Model, Schedule, Train

MODEL = Model(n_layers=1, n_heads=2, d_model=8, d_head=4, n_ctx=8, d_vocab=300, positions="shortformer")
OPTIONS = Train(
    data="files", seeds=[0], steps=12, batch=4, lr=0.01, warmup=3, betas=[0.9, 0.98], weight_decay=0.05, clip=1.0,
    repeats=0.4, checkpoints=Schedule(every=5, log=0),
)  # fmt: skip


def make(path: Path, **changed: Any) -> Path:
    """Make the folder of a run that is to be trained, on rows of random tokens."""
    path.mkdir()
    np.save(path / "rows.npy", np.random.default_rng(0).integers(300, size=(50, 8), dtype=np.uint16))
    wanted = train.as_dict(MODEL, OPTIONS, 0)
    wanted["train"] |= changed
    train.prepare(path, {**wanted, "rows": "rows.npy"})
    return path


def checkpoints(path: Path) -> dict[str, tuple[Any, bytes]]:
    """What the header of each checkpoint says, and the bytes of its arrays."""
    found = {}
    for file in (path / "checkpoints").glob("step_*"):
        content = file.read_bytes()
        start = 8 + int.from_bytes(content[:8], "little")
        found[file.name] = json.loads(content[8:start]), content[start:]
    return found


def losses(path: Path) -> list[dict[str, float]]:
    """The lines of its metrics."""
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]

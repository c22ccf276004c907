"""A small planned sweep whose every number is known, and the points that W&B has to get of it."""

import dataclasses
import json
import random
from pathlib import Path

import numpy as np

from rllc import gather, store
from rllc import plan as plans
from rllc.config import Track
from rllc.plan import Cell
from rllc.task import Estimate, Task

KEY = "0123abcd" * 5
WANDB = Track(kind="wandb", project="rllc", entity=None, mode="auto")
STEPS = [0, 1, 10, 200]
HEADS = ["L0H0", "L0H1"]
LOSSES = {0: 5.5, 10: 4.25, 200: 3.0}
PNG = bytes.fromhex(  # one black pixel
    "89504e470d0a1a0a0000000d4948445200000001000000010800000000"
    "3a7e9b550000000a49444154789c6360000000020001e221bc330000000049454e44ae426082"
)


def plan(steps=STEPS):
    return [
        Task("run", "w", step, head, dataset, "r", "llc", 0, None)
        for step in steps
        for dataset in ("pile", "code")
        for head in HEADS
    ]


def value(task):
    return task.step + HEADS.index(task.part) / 10 + (1000 if task.dataset == "code" else 0)


def row(task, **changed):
    known = {name: getattr(task, name) for name in ("key", "run", "step", "part", "dataset", "metric", "seed")}
    return {**known, "value": value(task), "error": 0.5, "health": "ok", "reason": "", **changed}


def scrambled(tasks, seed=0):
    rows = [row(task) for task in tasks]
    random.Random(seed).shuffle(rows)
    return rows


def expected(dataset, steps=STEPS, heads=HEADS):
    above = 1000 if dataset == "code" else 0
    return [
        {"step": s}
        | {f"rllc/{head}": s + above + HEADS.index(head) / 10 for head in heads}
        | {f"error/{head}": 0.5 for head in heads}
        | {f"health/{head}": 0 for head in heads}
        for s in steps
    ]


def training():
    return [{"step": step, "train/loss": loss} for step, loss in LOSSES.items()]


def trained(root: Path) -> Path:
    """Write the metrics of the training."""
    file = root / "runs" / "run" / "metrics.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps({"step": step, "loss": loss}) + "\n" for step, loss in LOSSES.items()))
    return file


def write_plan(folder: Path, tasks) -> list[Cell]:
    cells = [Cell(task, f"runs/run/checkpoints/step_{task.step:07}.safetensors", "data/r.npy", 1.0) for task in tasks]
    folder.mkdir(parents=True, exist_ok=True)
    plans.write(folder, cells)
    return cells


def measure(folder: Path, tasks, **changed) -> None:
    """Put the results of some tasks into the store, as a worker does."""
    for task in tasks:
        estimate = Estimate(
            task=task, value=value(task), error=0.5, chains_C=np.array([1.0, 2.0]), health="ok", reason="", stats={},
            loss_CS=np.ones((2, 3), np.float32), seconds=0.1, code="c",
        )  # fmt: skip
        store.put(folder, dataclasses.replace(estimate, **changed), "worker")


def whole(folder: Path) -> None:
    """Plan, training, all results and the tables that are gathered from them."""
    trained(folder.parent.parent)
    cells = write_plan(folder, plan())
    measure(folder, [cell.task for cell in cells])
    gather.gather(folder, cells)

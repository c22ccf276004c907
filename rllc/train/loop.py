"""The steps of a training: AdamW on packed rows, by one process or several, resumable to the bit.

Shapes: B rows of a rank, L positions.
"""

import json
import math
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TextIO

import numpy as np
import torch
from torch import Tensor, nn

from rllc import train as runs
from rllc.config import Model, Train
from rllc.data import batches
from rllc.mistake import Unfinished
from rllc.models import decoder
from rllc.models.chains import Weights
from rllc.train import ranks, state
from rllc.train.ranks import Rank
from rllc.zoo import folder

RESUME_SECONDS = 5.0  # at most this much training is lost, beside the step in hand
METRIC_STEPS = 10
ALONE = Rank()


class Told(Exception):
    """The training was told to stop, and its state is saved."""


def run(path: Path, rank: Rank = ALONE, *, parent: int | None = None, told: Callable[[], bool] = lambda: False) -> None:
    """Train until the last step, from the resume state where there is one; the first rank writes all files.

    Whether the loss is finite is seen every METRIC_STEPS steps and before weights are saved, for to look at it is to
    wait for the GPU. So the training may stop some steps late, but never saves such weights.

    Args:
        path: of the run.
        rank: of this process among those that train it.
        parent: the process that started this one: when it is gone, the training stops.
        told: asked at each step of the first rank, which saves the state and stops when it is true.

    Raises:
        Mistake: there are more ranks than rows of a batch.
        Unfinished: the loss is not finite, or the parent is gone.
        Told: see `told`.
    """
    model, train, rows = runs.settings(path)
    ranks.check(rank.count, train.batch)
    device = ranks.device(rank)
    with ranks.together(rank, device):
        fresh = decoder.init(model, train.seeds[0])
        weights: Weights = {name: nn.Parameter(array.to(device)) for name, array in fresh.items()}
        optimizer = state.optimizer(weights, train)
        first = state.restore(ranks.same(state.read(path) if rank.first else b"", rank, device), weights, optimizer)
        batch = _batches(rows, train, rank, device)
        loss = ranks.losses(weights, model, rank, batch=train.batch, example_BL=batch(first))
        look = _looks(path, model, train, rank, weights)
        save = _saves(path, optimizer, weights, told) if rank.first else None
        with state.metrics(path, first) if rank.first else nullcontext() as metrics:
            for step in range(first, train.steps + 1):
                if parent is not None and os.getppid() != parent:
                    raise Unfinished(f"{path}: stopped at step {step}, for process {parent} that started it is gone")
                loss_now = loss(batch(step))
                look(step, loss_now, metrics)
                if save is not None:
                    save(step, loss_now, step == train.steps)
                if step < train.steps:
                    _update(optimizer, loss_now, weights, runs.learning_rate(train, step), train.clip)


def _batches(rows: Path, train: Train, rank: Rank, device: torch.device) -> Callable[[int], Tensor]:
    """The function from a step to the tokens of this rank, (B, L), on their way to the GPU."""
    rows_NL, mine = np.load(rows, mmap_mode="r", allow_pickle=False), ranks.share(rank, train.batch)

    def batch(step: int) -> Tensor:
        tokens_BL = batches.training(
            rows_NL, seed=train.seeds[0], step=step, batch=train.batch, repeats=train.repeats
        )[mine]  # fmt: skip
        tokens = torch.from_numpy(tokens_BL)
        return tokens if device.type == "cpu" else tokens.pin_memory().to(device, non_blocking=True)

    return batch


def _looks(
    path: Path, model: Model, train: Train, rank: Rank, weights: Weights
) -> Callable[[int, Tensor, TextIO | None], None]:
    """What is done at some steps with their loss, before the update: all ranks look at it, the first writes it down."""
    keep = {*runs.saved_steps(train.checkpoints, train.steps)}

    def look(step: int, loss: Tensor, metrics: TextIO | None) -> None:
        written = step % METRIC_STEPS == 0 or step == train.steps
        if not written and step not in keep:
            return
        mean = ranks.mean(loss, rank)
        if metrics is not None and written:
            metrics.write(json.dumps({"step": step, "loss": round(mean, 6)}) + "\n")
            metrics.flush()
        if not math.isfinite(mean):
            raise Unfinished(f"{path}: the training loss is not finite at step {step}; lower train.lr")
        if metrics is not None and step in keep:
            folder.save(runs.checkpoint(path, step), model, weights)

    return look


def _saves(
    path: Path, optimizer: torch.optim.AdamW, weights: Weights, told: Callable[[], bool]
) -> Callable[[int, Tensor, bool], None]:
    """What the first rank does with its state before the update of each step: save it now and then."""
    state.tidy(path)
    saved = time.monotonic()

    def save(step: int, loss: Tensor, last: bool) -> None:
        nonlocal saved
        stop = told()
        if not (last or stop or time.monotonic() - saved > RESUME_SECONDS):
            return
        if math.isfinite(loss.item()):  # what is not is told by the next look, and no state to go on from
            state.save(path, weights, optimizer, step)
        saved = time.monotonic()
        if stop:
            raise Told

    return save


def _update(optimizer: torch.optim.AdamW, loss: Tensor, weights: Weights, lr: float, clip: float) -> None:
    """One step of the optimizer; the backward pass leaves the gradient of all ranks, which is then clipped."""
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(list(weights.values()), clip)
    optimizer.step()

"""Training of one run: AdamW on packed rows, checkpoints on a schedule, resumable to the bit.

Run as `python -m rllc.train RUN_FOLDER`; the folder's `config.yaml` says everything. Each batch depends on the seed
and the step alone, so the resume state is the weights, the optimizer and the step.
"""

import argparse
import dataclasses
import json
import math
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from rllc import atomic
from rllc.config import Model, Schedule, Train, differences, plain
from rllc.mistake import Mistake, Unfinished
from rllc.zoo import folder

RESUME_SECONDS = 5.0  # at most this much training is lost, beside the step in hand
METRIC_STEPS = 10


def saved_steps(schedule: Schedule, steps: int) -> list[int]:
    """The steps whose weights are kept: 0, multiples of `every`, `log` log-spaced ones from 1, and the last."""
    linear = range(0, steps + 1, schedule.every)
    log = np.geomspace(1, steps, schedule.log).round().astype(int).tolist() if schedule.log else []
    return sorted({0, steps, *linear, *log})


def learning_rate(train: Train, step: int) -> float:
    """Linear warm-up to `lr`, then constant."""
    return train.lr * min(1.0, (step + 1) / max(train.warmup, 1))


def prepare(path: Path, wanted: dict[str, Any]) -> None:
    """Write the run's `config.yaml`, or check that the run there is the one that is wanted.

    Raises:
        Mistake: the folder holds another run; the keys that differ are named.
    """
    import yaml

    file = path / "config.yaml"
    if not file.exists():
        atomic.write_text(file, yaml.safe_dump(wanted, sort_keys=False))
        return
    found = yaml.safe_load(file.read_text())
    differs = differences(found, wanted)
    if differs:
        raise Mistake(f"run: {path} was trained with other settings: {'; '.join(differs)}; choose another run= name.")


def finished(path: Path) -> bool:
    """Whether every checkpoint of the run's schedule is there."""
    import yaml

    config = yaml.safe_load((path / "config.yaml").read_text())
    steps = saved_steps(Schedule(**config["train"]["checkpoints"]), config["train"]["steps"])
    return all(_checkpoint(path, step).exists() for step in steps)


def done(path: Path) -> int:
    """How many steps the metrics say are trained; cheap, for progress."""
    try:
        last = (path / "metrics.jsonl").read_text().rstrip().rpartition("\n")[2]
        return int(json.loads(last)["step"])
    except (OSError, ValueError, KeyError):
        return 0


def run(path: Path, *, parent: int | None = None) -> None:
    """Train until the last step, from the resume state where there is one.

    `parent` is the process that started the training: when it is gone, the training stops.

    Raises:
        Unfinished: the loss is not finite, or the parent is gone.
    """
    import torch
    import yaml

    from rllc.data import batches
    from rllc.models import decoder

    config = yaml.safe_load((path / "config.yaml").read_text())
    model, seed = Model(**config["model"]), config["seed"]
    train = Train(**{**config["train"], "checkpoints": Schedule(**config["train"]["checkpoints"]), "seeds": [seed]})
    rows_NL = np.load(path / config["rows"], mmap_mode="r", allow_pickle=False)
    weights = decoder.init(model, seed)
    optimizer = _optimizer(weights, train)
    first = _resume(path, weights, optimizer)
    keep, saved = set(saved_steps(train.checkpoints, train.steps)), time.monotonic()
    with _metrics(path, first) as metrics:
        for step in range(first, train.steps + 1):
            if parent is not None and os.getppid() != parent:
                raise Unfinished(f"{path}: stopped at step {step}, for process {parent} that started it is gone")
            if step == train.steps or time.monotonic() - saved > RESUME_SECONDS:
                _save_state(path, weights, optimizer, step)
                saved = time.monotonic()
            tokens_BL = batches.training(rows_NL, seed=seed, step=step, batch=train.batch, repeats=train.repeats)
            loss = decoder.forward(weights, torch.from_numpy(tokens_BL)[None], model).mean()
            if step % METRIC_STEPS == 0 or step == train.steps:
                metrics.write(json.dumps({"step": step, "loss": round(loss.item(), 6)}) + "\n")
                metrics.flush()
            if not math.isfinite(loss.item()):
                raise Unfinished(f"{path}: the training loss is not finite at step {step}; lower train.lr")
            if step in keep:
                folder.save(_checkpoint(path, step), model, weights)
            if step < train.steps:
                _update(optimizer, loss, weights, learning_rate(train, step), train.clip)


def _optimizer(weights: dict[str, Any], train: Train) -> Any:
    """AdamW with weight decay on matrices, none on biases and LayerNorms."""
    import torch

    for array in weights.values():
        array.requires_grad_()
    bias = [array for name, array in weights.items() if name.rpartition(".")[2][:1] in ("b", "w")]
    matrix = [array for array in weights.values() if not any(array is other for other in bias)]
    groups = [{"params": matrix, "weight_decay": train.weight_decay}, {"params": bias, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=train.lr, betas=tuple(train.betas), foreach=True)  # type: ignore[arg-type]


def _update(optimizer: Any, loss: Any, weights: dict[str, Any], lr: float, clip: float) -> None:
    import torch

    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(list(weights.values()), clip)
    optimizer.step()


def _checkpoint(path: Path, step: int) -> Path:
    return path / "checkpoints" / f"step_{step:07d}.safetensors"


def _save_state(path: Path, weights: dict[str, Any], optimizer: Any, step: int) -> None:
    from safetensors.torch import save as packed

    tensors = {f"weights.{name}": array.detach() for name, array in weights.items()}
    for name, array in weights.items():
        tensors |= {f"{field}.{name}": value for field, value in optimizer.state[array].items()}
    with atomic.replace(path / "resume.safetensors") as file:
        file.write(packed(tensors, {"step": str(step)}))


def _resume(path: Path, weights: dict[str, Any], optimizer: Any) -> int:
    """Load the resume state into weights and optimizer; the step to go on with."""
    import torch
    from safetensors import safe_open

    file = path / "resume.safetensors"
    if not file.exists():
        return 0
    with safe_open(file, "pt") as state, torch.no_grad():
        for key in state.keys():  # noqa: SIM118
            field, _, name = key.partition(".")
            if field == "weights":
                weights[name].copy_(state.get_tensor(key))
            else:
                optimizer.state[weights[name]][field] = state.get_tensor(key).clone()  # in torch's own aligned memory
        return int(state.metadata()["step"])


def _metrics(path: Path, first: int) -> Any:
    """The metrics file, without the lines of steps that will be trained again."""
    file = path / "metrics.jsonl"
    lines = [line for line in file.read_text().splitlines() if line] if file.exists() else []
    kept = [line for line in lines if line.endswith("}") and json.loads(line)["step"] < first]
    atomic.write_text(file, "".join(f"{line}\n" for line in kept))
    return file.open("a", encoding="utf-8")


def as_dict(model: Model, train: Train, seed: int) -> dict[str, Any]:
    """What `prepare` stores of the settings: the model, the training options, and this run's seed."""
    options = dataclasses.asdict(train)
    del options["seeds"]
    return {"seed": seed, "model": plain(model), "train": options}


def main() -> int:
    """Parse the command line, and train."""
    parser = argparse.ArgumentParser(prog="python -m rllc.train", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--parent", type=int)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        run(options.run, parent=options.parent)
    except Unfinished as unfinished:
        print(f"rllc: {unfinished}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

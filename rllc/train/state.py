"""What a training goes on from: the weights, the optimizer and the step in one file, and the lines of its metrics."""

import json
from pathlib import Path
from typing import TextIO

import torch

from rllc import atomic
from rllc.config import Train
from rllc.models.chains import Weights


def optimizer(weights: Weights, train: Train) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices, none on biases and norms."""
    bias = [array for name, array in weights.items() if name.rpartition(".")[2][:1] in ("b", "w")]
    matrix = [array for array in weights.values() if not any(array is other for other in bias)]
    groups = [{"params": matrix, "weight_decay": train.weight_decay}, {"params": bias, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=train.lr, betas=tuple(train.betas), foreach=True)  # type: ignore[arg-type]


def save(path: Path, weights: Weights, optimizer: torch.optim.AdamW, step: int) -> None:
    """Write the state before the update of a step, whole or not at all; nothing in it depends on who computed it."""
    from safetensors.torch import save as packed

    tensors = {f"weights.{name}": array.detach() for name, array in weights.items()}
    for name, array in weights.items():
        tensors |= {f"{field}.{name}": value for field, value in optimizer.state[array].items()}
    with atomic.replace(path / "resume.safetensors") as file:
        file.write(packed(tensors, {"step": str(step)}))


def read(path: Path) -> bytes:
    """The content of the file of the state; empty where there is none."""
    file = path / "resume.safetensors"
    return file.read_bytes() if file.exists() else b""


def restore(content: bytes, weights: Weights, optimizer: torch.optim.AdamW) -> int:
    """Put a state into weights and optimizer; the step to go on with. Nothing is unpickled."""
    from safetensors.torch import load

    if not content:
        return 0
    with torch.no_grad():
        for key, value in load(content).items():
            field, _, name = key.partition(".")
            if field == "weights":
                weights[name].copy_(value)
            else:  # in torch's own aligned memory; AdamW keeps its count of steps with the host
                device = "cpu" if field == "step" else weights[name].device
                optimizer.state[weights[name]][field] = value.to(device, copy=True)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return int(header["__metadata__"]["step"])


def metrics(path: Path, first: int) -> TextIO:
    """The metrics file, opened to go on, without the lines of steps that will be trained again."""
    file = path / "metrics.jsonl"
    lines = [line for line in file.read_text().splitlines() if line] if file.exists() else []
    kept = [line for line in lines if line.endswith("}") and json.loads(line)["step"] < first]
    atomic.write_text(file, "".join(f"{line}\n" for line in kept))
    return file.open("a", encoding="utf-8")


def tidy(path: Path) -> None:
    """Remove what a process that was killed while it wrote has left."""
    for folder in (path, path / "checkpoints"):
        for file in atomic.leftovers(folder) if folder.is_dir() else ():
            file.unlink(missing_ok=True)

"""A module of the user's whose tasks are held, slowed, broken or made greedy by files in the working folder.

`orders/<step>-<dataset>-<part>.<what>` gives one task an order: `hold` waits while the file is there, `raise` raises,
`eat` takes memory until it is killed, `die` ends its process without a word. `orders/seconds` holds how long every
evaluation of the loss takes at least. `seen/<step>-<dataset>-<part>` gets a line with the process, node and devices of
each start of a task. Orders for part "*", which is what a sweep is checked with, are not given.
"""

import os
import time
from pathlib import Path

import torch
from torch import Tensor, nn

PARTS = ("first", "second", "third")
DATASETS = ("near", "far")
MOST_BYTES = 3 << 30  # a machine that limits nothing survives


class Net(nn.Module):
    """Three layers, and the step they were saved at."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 1)
        self.register_buffer("step", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        return self.third(torch.tanh(self.second(torch.tanh(self.first(x)))))[..., 0]


def loss(module: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The squared error of each sample; a fourth column of x, if any, only marks the dataset `far`."""
    x, y = batch
    moving = [part for part in PARTS if getattr(module, part).weight.requires_grad]
    if len(moving) == 1:
        obey(f"{int(module.step)}-{DATASETS[x.shape[-1] - 3]}-{moving[0]}")
    if Path("orders/seconds").exists():
        time.sleep(float(Path("orders/seconds").read_text()))
    return (module(x[..., :3]) - y) ** 2


def obey(task: str) -> None:
    """Do what a task has been ordered; its order to raise and the like holds at every start of it."""
    orders = Path("orders")
    seen = f"{os.getpid()} {os.environ.get('SLURMD_NODENAME', '-')} {os.environ.get('CUDA_VISIBLE_DEVICES', '-')}\n"
    file = Path("seen", task)
    file.parent.mkdir(exist_ok=True)
    if not file.exists() or not file.read_text().endswith(seen):
        with file.open("a") as lines:
            lines.write(seen)
    while (orders / f"{task}.hold").exists():
        time.sleep(0.02)
    if (orders / f"{task}.raise").exists():
        raise ArithmeticError(f"{task} is poisoned")
    if (orders / f"{task}.die").exists():
        os._exit(9)
    eaten = []
    while (orders / f"{task}.eat").exists() and len(eaten) << 25 < MOST_BYTES:
        eaten.append(bytearray(os.urandom(1) * (1 << 25)))


def near() -> tuple[Tensor, Tensor]:
    x = torch.linspace(0, 1, 36).view(12, 3)
    return x, x.sum(1).sin()


def far() -> tuple[Tensor, Tensor]:
    x, y = near()
    return torch.cat([x + 1, torch.zeros(12, 1)], 1), y + 1

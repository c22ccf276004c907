"""The processes that train one run together: which rows are whose, and what they tell each other.

Each of R ranks takes its share of the rows of a batch of B. Its loss is (R/B) Σ ℓ over its rows, of which
DistributedDataParallel averages the gradients: (1/R) Σ_ranks (R/B) Σ ∂ℓ is the gradient of the mean over all rows,
however unequal the shares are.

Shapes: B rows, L positions.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from rllc.config import Model
from rllc.mistake import Mistake
from rllc.models import decoder
from rllc.models.chains import Weights


@dataclass(frozen=True)
class Rank:
    """One of `count` processes; `local` is its number on its machine. The first one writes all files."""

    index: int = 0
    count: int = 1
    local: int = 0

    @property
    def first(self) -> bool:
        """Whether it is the one that writes."""
        return self.index == 0


def find(environment: Mapping[str, str] = os.environ) -> Rank:
    """The rank that torchrun gave this process, or srun where MASTER_ADDR is set; else it is alone."""
    for index, count, local in (
        ("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
    ):  # fmt: skip
        if "MASTER_ADDR" in environment and index in environment:
            return Rank(int(environment[index]), int(environment[count]), int(environment[local]))
    return Rank()


def check(count: int, batch: int) -> None:
    """Raise Mistake where some of so many processes would have no row of a batch."""
    if count > batch:
        raise Mistake(
            f"train.processes: {count} processes cannot share the {batch} rows of train.batch; legal: 1 to {batch}."
        )


def share(rank: Rank, batch: int) -> slice:
    """The rows of a batch that are a rank's: each row is of one rank, and shares differ by one row at most."""
    return slice(rank.index * batch // rank.count, (rank.index + 1) * batch // rank.count)


def device(rank: Rank) -> torch.device:
    """The GPU of a rank, counted round those that it sees; the CPU where there is none."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", rank.local % torch.cuda.device_count())


@contextmanager
def together(rank: Rank, device: torch.device) -> Iterator[None]:
    """Connect with the other ranks, by NCCL between GPUs and gloo else. It meets them at MASTER_ADDR:MASTER_PORT."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if rank.count > 1:
        backend = "nccl" if device.type == "cuda" else "gloo"
        own = device if device.type == "cuda" else None
        distributed.init_process_group(backend, rank=rank.index, world_size=rank.count, device_id=own)
    yield
    if rank.count > 1:  # not after an error: the others may be gone, and closing would wait for them
        distributed.destroy_process_group()


class _Summed(nn.Module):
    """Σ ℓ over rows as a module, for DistributedDataParallel takes nothing else."""

    def __init__(self, weights: Weights, model: Model) -> None:
        super().__init__()
        self._weights, self._model = weights, model
        for number, array in enumerate(weights.values()):
            assert isinstance(array, nn.Parameter)
            self.register_parameter(str(number), array)

    def forward(self, tokens_BL: Tensor) -> Tensor:
        return decoder.forward(self._weights, tokens_BL[None], self._model).sum()


def losses(weights: Weights, model: Model, rank: Rank, *, batch: int, example_BL: Tensor) -> Callable[[Tensor], Tensor]:
    """The function from a rank's rows to (R/B) Σ ℓ, whose backward pass leaves the mean gradient of all ranks.

    The weights are parameters. `example_BL` are rows of the rank: one backward pass over them, which changes nothing,
    lets DistributedDataParallel lay out its buckets for good. The last bits of a sum over three ranks depend on its
    place in them, and a resumed training would begin with another layout than the undisturbed one has by then.
    """
    summed: nn.Module = _Summed(weights, model)
    if rank.count > 1:
        summed = DistributedDataParallel(summed)
        summed(example_BL).backward()
    return lambda tokens_BL: summed(tokens_BL) / (batch / rank.count)


def mean(loss: Tensor, rank: Rank) -> float:
    """The mean of a number over all ranks, the same on each."""
    total = loss.detach().clone()
    if rank.count > 1:
        distributed.all_reduce(total)
    return float(total.item()) / rank.count


def same(content: bytes, rank: Rank, device: torch.device) -> bytes:
    """The first rank's bytes, on each: what another machine sees of a shared folder may be older."""
    if rank.count == 1:
        return content
    size = torch.tensor([len(content)], device=device)
    distributed.broadcast(size, 0)
    held = torch.zeros(int(size.item()), dtype=torch.uint8)
    held.numpy()[: len(content)] = np.frombuffer(content, np.uint8)
    held = held.to(device)
    distributed.broadcast(held, 0)
    return held.cpu().numpy().tobytes()


def lost(error: RuntimeError, rank: Rank) -> bool:
    """Whether an error says only that another rank is gone."""
    return rank.count > 1 and ("gloo" in str(error) or isinstance(error, distributed.DistError))

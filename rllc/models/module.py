"""The loss of any torch.nn.Module as a function of a part of its parameters, the rest frozen at w*.

Parameters go by their own names, `named_parameters()`, as "conv1.weight"; everything floating, the data included, is
taken in the chains' dtype, so that a half-precision module moves in float32. The module itself is never changed.

Shapes: C chains, B samples of a minibatch, N samples of the data.
"""

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from rllc.mistake import Mistake
from rllc.models import parts

Loss = Callable[[nn.Module, Any], Tensor]
"""loss(module, batch): one number a sample, (B,), or their mean, a scalar; the batch is like the data."""

Data = Tensor | Sequence[Tensor]
"""A tensor or several, each with the N samples as its first axis."""

LIVELY = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)  # of another meaning in train mode


class ModulePart:
    """A part of a module's parameters as a potential.

    All chains are evaluated at once by `torch.func.vmap` where a first attempt at the loss and its gradient succeeds,
    else one after the other: vmap refuses what depends on the values of the data, writes in place, or has no rule for
    batching. Both give the same numbers up to rounding; `batched` says which it is.

    The module must be in eval mode when this is used; see `evaluating`.
    """

    def __init__(
        self, module: nn.Module, loss: Loss, data: Data, part: str, *, chains: int, batch: int, dtype: str = "float32"
    ) -> None:
        every, tied = arrays(module)
        self.names = parts.select(part, [*every, *tied], tied=tied, key="part")
        if caution := parts.caution(part, self.names, list(every)):
            warnings.warn(caution, stacklevel=4)
        _check(every, self.names, tied)
        kind = getattr(torch, dtype)
        placed = {name: _typed(array, kind) for name, array in [*every.items(), *module.named_buffers()]}
        self.start = [placed.pop(name) for name in self.names]
        self._frozen = {f"module.{name}": array for name, array in placed.items()}
        self._loss = _Lossy(module, loss)
        self._single = isinstance(data, Tensor)
        device = self.start[0].device
        self._data = [_typed(array.to(device), kind, copy=False) for array in samples(data, batch)]
        self._reference_N = torch.full((len(self),), torch.nan, dtype=kind, device=device)
        rows_B = torch.arange(batch, device=device)
        self.scalar = self._probe(rows_B)
        self.batched = self._allows_vmap(rows_B.expand(chains, batch))

    def __len__(self) -> int:
        """N."""
        return len(self._data[0])

    def losses(self, live: list[Tensor], rows_CB: Tensor) -> Tensor:
        """Loss of each sample, (C, B), or (C, 1) where the loss is a mean over its batch."""
        evaluate = self._together if self.batched else self._in_turn
        return evaluate(live, [array[rows_CB] for array in self._data]).view(len(rows_CB), -1)

    def reference(self, rows_CB: Tensor) -> Tensor:
        """The same at w*, without a graph; what a sample once gave is kept."""
        known_CB = self._reference_N[rows_CB]
        if not self.scalar and not known_CB.isnan().any():
            return known_CB
        with torch.no_grad():
            loss = self.losses([array.expand(len(rows_CB), *array.shape) for array in self.start], rows_CB)
        if not self.scalar:
            self._reference_N[rows_CB] = loss
        return loss

    def _together(self, live: Sequence[Tensor], batches: Sequence[Tensor]) -> Tensor:
        return vmap(self._one)(tuple(live), tuple(batches))

    def _in_turn(self, live: Sequence[Tensor], batches: Sequence[Tensor]) -> Tensor:
        chains = zip(zip(*live, strict=True), zip(*batches, strict=True), strict=True)
        return torch.stack([self._one(*chain) for chain in chains])

    def _one(self, live: Sequence[Tensor], batch: Sequence[Tensor]) -> Tensor:
        """The loss of one chain, () or (B,)."""
        weights = self._frozen | {f"module.{name}": array for name, array in zip(self.names, live, strict=True)}
        given = batch[0] if self._single else tuple(batch)
        return functional_call(self._loss, weights, (given,))  # type: ignore[no-any-return]

    def _probe(self, rows_B: Tensor) -> bool:
        """Whether the loss is a scalar; it must be that or one number a sample, repeatable, and depend on the part."""
        batch = [array[rows_B] for array in self._data]
        live = [array.clone().requires_grad_() for array in self.start]
        loss = self._one(live, batch)
        if not isinstance(loss, Tensor) or loss.shape not in ((), (len(rows_B),)):
            what = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise Mistake(f"loss: {what} is neither a scalar nor one number a sample, ({len(rows_B)},).")
        if not loss.isfinite().all():
            raise Mistake("loss: it is not finite at the weights given; look for NaN or infinite samples.")
        if loss.dim() == 0 and not torch.allclose(loss, self._one(live, [torch.cat([a, a]) for a in batch]), rtol=1e-3):
            raise Mistake(
                "loss: the same samples twice give another value; a scalar must be the mean over its samples."
            )
        if loss.dtype != live[0].dtype:
            raise Mistake(f"loss: {loss.dtype} is not {live[0].dtype}, the sampler's; let it keep its module's dtype.")
        if not torch.allclose(loss, self._one(live, batch), rtol=1e-3, equal_nan=True):
            raise Mistake("loss: the same weights and samples gave two different values; it must not be random.")
        if not loss.requires_grad or not any(grad is not None for grad in _slope(loss, live)):
            raise Mistake(f"loss: it does not depend on {', '.join(self.names)}; it must use the module it is given.")
        return loss.dim() == 0

    def _allows_vmap(self, rows_CB: Tensor) -> bool:
        """The attempt: the loss of all chains and its gradient."""
        live = [array.repeat(len(rows_CB), *[1] * array.dim()).requires_grad_() for array in self.start]
        try:
            _slope(self._together(live, [array[rows_CB] for array in self._data]), live)
        except Exception:  # a module can fail under vmap in any way of its own, and has just worked without
            return False
        return True


class _Lossy(nn.Module):
    """A loss as a module around the user's, so that functional_call can put weights into it."""

    def __init__(self, module: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.module, self._loss = module, loss

    def forward(self, batch: Any) -> Tensor:
        return self._loss(self.module, batch)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module into eval mode for a while, and its random numbers aside; both are as before afterwards."""
    modes = [(each, each.training) for each in module.modules()]
    if any(training and isinstance(each, LIVELY) for each, training in modes):
        warnings.warn("the module is in train mode; the chains run in eval mode", stacklevel=5)
    with torch.random.fork_rng({array.device.index for array in module.parameters() if array.is_cuda}):
        module.eval()
        try:
            yield
        finally:
            for each, training in modes:
                each.training = training


def arrays(module: nn.Module) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The parameters at w* by their first names, and the first name of each further one of a tied parameter."""
    first: dict[int, str] = {}
    tied = {}
    for name, array in module.named_parameters(remove_duplicate=False):
        if first.setdefault(id(array), name) != name:
            tied[name] = first[id(array)]
    return {name: array.detach() for name, array in module.named_parameters()}, tied


def _check(arrays: dict[str, Tensor], chosen: Sequence[str], tied: dict[str, str]) -> None:
    for name, array in arrays.items():
        if name in chosen and not array.is_floating_point():
            raise Mistake(f"part: {name} is of {array.dtype}; only real floating-point parameters can move.")
        if not array.isfinite().all():
            raise Mistake(f"module: {name} holds a number that is not finite.")
    for further, name in tied.items():
        if name in chosen:
            warnings.warn(f"{further} and {name} are one tied array, which moves as one", stacklevel=5)


def samples(data: Data, batch: int) -> list[Tensor]:
    """The tensors of the data.

    Raises:
        Mistake: they have no or different numbers of samples, or fewer than a minibatch.
    """
    arrays = [data] if isinstance(data, Tensor) else list(data)
    if not arrays or not all(isinstance(array, Tensor) and array.dim() for array in arrays):
        raise Mistake("data: it must be a tensor, or several, whose first axis is the samples.")
    if len({len(array) for array in arrays}) > 1:
        raise Mistake(f"data: {', '.join(str(len(array)) for array in arrays)} samples are not equally many.")
    if len(arrays[0]) < batch:
        raise Mistake(f"data: {len(arrays[0])} samples are fewer than a minibatch, sampler.batch {batch}.")
    return arrays


def _typed(array: Tensor, dtype: torch.dtype, *, copy: bool = True) -> Tensor:
    """A floating array in `dtype`, another as it is; a copy shares no memory with the user's."""
    return array.detach().to(dtype if array.is_floating_point() else array.dtype, copy=copy)


def _slope(loss: Tensor, live: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    return torch.autograd.grad(loss.sum(), live, allow_unused=True)


def name(loss: Loss) -> str:
    """Where a loss is defined, as "package.module:function"."""
    return f"{loss.__module__}:{getattr(loss, '__qualname__', type(loss).__name__)}"


def content(named: Iterable[tuple[object, Tensor]]) -> str:
    """16 hexadecimal digits of the SHA-256 of names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name, array in named:
        digest.update(f"{name}:{array.dtype}:{tuple(array.shape)}:".encode())
        digest.update(array.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]

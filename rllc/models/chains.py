"""Arrays with or without a leading chain axis, against activations of all chains and rows; large chains in turn.

Shapes: C chains, B rows, L positions, E residual width, F another width.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Weights = dict[str, Tensor]
Losses = Callable[[Sequence[Tensor], Tensor], list[Tensor]]
"""Losses, (C, B) each, for live arrays that each have a leading chain axis and rows (C, B)."""

BLOCK_BYTES = {"cpu": 8 * 2**20, "cuda": 2**30}  # of a stream: larger ones are no faster, and a step holds some forty


def at_once(chains: int, stream_bytes: int, device: str) -> int:
    """How many chains are evaluated at once, a divisor of `chains`: `stream_bytes` are those of one chain's stream."""
    most = max(1, BLOCK_BYTES[device] // stream_bytes)
    return max(count for count in range(1, chains + 1) if chains % count == 0 and count <= most)


def in_turn(losses: Losses, live: Sequence[Tensor], rows_CB: Tensor, count: int) -> list[Tensor]:
    """What `losses` gives for `count` chains at a time, put together; of the graph only gradients are held.

    Differentiable through the sum over chains of the mean over rows only, as chains are.
    """
    if len(rows_CB) <= count:
        return losses(live, rows_CB)
    if torch.is_grad_enabled() and any(array.requires_grad for array in live):
        return list(_InTurn.apply(losses, rows_CB, count, *live))  # type: ignore[no-untyped-call]
    parts = [
        losses([array[start : start + count] for array in live], rows_CB[start : start + count])
        for start in range(0, len(rows_CB), count)
    ]
    return [torch.cat(part) for part in zip(*parts, strict=True)]


class _InTurn(torch.autograd.Function):
    """The gradients of a block of chains are found before the next block begins."""

    @staticmethod
    def forward(ctx: Any, losses: Losses, rows_CB: Tensor, count: int, *live: Tensor) -> tuple[Tensor, ...]:
        grads, parts = [torch.empty_like(array) for array in live], []
        for start in range(0, len(rows_CB), count):
            chains = slice(start, start + count)
            own = [array[chains].detach().requires_grad_() for array in live]
            with torch.enable_grad():
                found = losses(own, rows_CB[chains])
                total = torch.stack([loss_CB.mean(1).sum() for loss_CB in found]).sum()
            for grad, part in zip(grads, torch.autograd.grad(total, own, materialize_grads=True), strict=True):
                grad[chains] = part
            parts.append([loss_CB.detach() for loss_CB in found])
        ctx.save_for_backward(*grads)
        return tuple(torch.cat(part) for part in zip(*parts, strict=True))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scale = grads[0][0, 0]
        assert scale.is_cuda or all((grad_CB == scale).all() for grad_CB in grads), "only the mean over rows"
        return None, None, None, *(array * (scale * grads[0].shape[1]) for array in ctx.saved_tensors)


def over_rows(array: Tensor, dims: int) -> Tensor:
    """Put axes between the chain axis, where there is one, and the `dims` own axes, so that it broadcasts over rows."""
    if array.dim() == dims:
        return array
    return array.view(array.shape[0], *[1] * (3 - dims), *array.shape[1:])


def over_all(array: Tensor, x_CBLE: Tensor) -> Tensor:
    """A matrix, or one for each chain, for every row of every chain, shape (C·B, …, …)."""
    chains, rows = x_CBLE.shape[:2]
    if array.dim() == 2:
        return array.expand(chains * rows, *array.shape)
    return array.unsqueeze(1).expand(chains, rows, *array.shape[1:]).flatten(0, 1)


def linear(x_CBLE: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    """x · matrix + bias, shape (C, B, L, F); the matrix is (E, F) or (C, E, F), the bias (F), (C, F) or None."""
    shape = *x_CBLE.shape[:-1], matrix.shape[-1]
    if matrix.dim() == 3:
        product = torch.bmm(x_CBLE.flatten(1, 2), matrix).view(shape)
    elif bias is not None and bias.dim() == 1:
        return torch.addmm(bias, x_CBLE.flatten(0, 2), matrix).view(shape)
    else:
        product = (x_CBLE.flatten(0, 2) @ matrix).view(shape)
    return product if bias is None else product + over_rows(bias, 1)

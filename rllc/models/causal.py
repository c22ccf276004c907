"""Causal attention on channels × positions: the layout in which small products are fast on a CPU.

Shapes: N sequences of one head each, K head width, L positions.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

PATTERN_SIZE = 2**25  # entries of the patterns beyond which the fused kernel takes over, which holds none
BLOCK = 32  # queries at least; at most four blocks, each against the keys up to its end


def attend(query_NKL: Tensor, key_NKL: Tensor, value_NKL: Tensor) -> Tensor:
    """softmax(qᵀk/√K, causal) vᵀ, with channels before positions throughout, shape (N, K, L)."""
    if query_NKL.shape[0] * query_NKL.shape[2] ** 2 > PATTERN_SIZE:
        # The kernel that holds no patterns takes four axes only.
        query, key, value = (array.transpose(1, 2).contiguous()[None] for array in (query_NKL, key_NKL, value_NKL))
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)[0].transpose(1, 2).contiguous()
    mixed: Tensor = _Causal.apply(query_NKL, key_NKL, value_NKL)  # type: ignore[no-untyped-call]
    return mixed


class _Causal(torch.autograd.Function):
    """Keeps the pattern of each block of queries for the backward pass."""

    @staticmethod
    def forward(ctx: Any, query_NKL: Tensor, key_NKL: Tensor, value_NKL: Tensor) -> Tensor:
        ctx.scale = 1 / math.sqrt(query_NKL.shape[1])
        ctx.blocks = _blocks(query_NKL.shape[-1])
        mixed, patterns = torch.empty(value_NKL.shape, dtype=value_NKL.dtype, device=value_NKL.device), []
        for start, stop in ctx.blocks:
            later = query_NKL.new_full((stop - start, stop), -math.inf).triu_(start + 1)
            query = query_NKL[..., start:stop].transpose(1, 2)
            pattern = torch.baddbmm(later, query, key_NKL[..., :stop], alpha=ctx.scale).softmax(-1)
            mixed[..., start:stop] = torch.bmm(value_NKL[..., :stop], pattern.transpose(1, 2))
            patterns.append(pattern)
        ctx.save_for_backward(query_NKL, key_NKL, value_NKL, *patterns)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NKL: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value, *patterns = ctx.saved_tensors
        grad = torch.zeros(len(query), 3, *query.shape[1:], dtype=query.dtype, device=query.device)
        grad_query, grad_key, grad_value = grad.unbind(1)
        for (start, stop), pattern in zip(ctx.blocks, patterns, strict=True):
            given = grad_NKL[..., start:stop]
            grad_value[..., :stop] += torch.bmm(given, pattern)
            slope = torch.bmm(given.transpose(1, 2), value[..., :stop])
            slope = torch._softmax_backward_data(slope, pattern, -1, slope.dtype).mul_(ctx.scale)
            grad_query[..., start:stop] = torch.bmm(key[..., :stop], slope.transpose(1, 2))
            grad_key[..., :stop] += torch.bmm(query[..., start:stop], slope)
        return grad_query, grad_key, grad_value


def _blocks(length: int) -> list[tuple[int, int]]:
    size = max(BLOCK, -(-length // 4))
    return [(start, min(start + size, length)) for start in range(0, length, size)]

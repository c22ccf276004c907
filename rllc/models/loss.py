"""Cross-entropy through the unembedding in chunks of tokens: the logits are never all in memory.

Shapes: C chains, N tokens of a chain, E residual width, V vocabulary.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

LOG2_E = math.log2(math.e)
CHUNK_BYTES = 8 * 2**20  # of one chunk of logits: stays in the last cache level of a core
CHUNK_TOKENS = 128  # at least: with fewer, reading the whole unembedding for each chunk costs more than the product
KEPT_BYTES = 2**28  # of all probabilities, beyond which they are computed again for the gradient of the unembedding


def chunk_tokens(d_vocab: int, dtype: torch.dtype) -> int:
    """Tokens of a chunk of logits: as many as fit into CHUNK_BYTES, at least CHUNK_TOKENS."""
    return max(CHUNK_TOKENS, CHUNK_BYTES // (d_vocab * dtype.itemsize))


def product(x: Tensor, matrix: Tensor) -> Tensor:
    """x · matrix in the matrix's precision, the result in that of x."""
    return x @ matrix if x.dtype == matrix.dtype else (x.to(matrix.dtype) @ matrix).to(x.dtype)


def _fused(x_NE: Tensor, weight_EV: Tensor, bias_V: Tensor, target_N: Tensor, chunk: int) -> Tensor:
    loss_N: Tensor = _Fused.apply(x_NE, weight_EV, bias_V, target_N, chunk)  # type: ignore[no-untyped-call]
    return loss_N


def _logits(offset_V: Tensor, x_NE: Tensor, weight_EV: Tensor) -> Tensor:
    """Logits to base 2; `offset` already is."""
    if x_NE.dtype == weight_EV.dtype:
        return torch.addmm(offset_V, x_NE, weight_EV, alpha=LOG2_E)
    return product(x_NE, weight_EV).mul_(LOG2_E).add_(offset_V)


def _shares(offset_V: Tensor, x_NE: Tensor, weight_EV: Tensor, target_N1: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities times their sum, that sum, and log2 of the target's share times the sum, of a chunk."""
    share = _logits(offset_V, x_NE, weight_EV)
    share.sub_(share.amax(1, keepdim=True))  # 2^(logit − largest) next
    chosen = share.gather(1, target_N1)
    return share, share.exp2_().sum(1, keepdim=True), chosen  # three times as fast as exp_


class _Fused(torch.autograd.Function):
    """ℓ_n = logsumexp(x_n W + b) − (x_n W + b)[y_n], its gradient found in the same pass over the logits."""

    @staticmethod
    def forward(ctx: Any, x_NE: Tensor, weight_EV: Tensor, bias_V: Tensor, target_N: Tensor, chunk: int) -> Tensor:
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        loss_N = x_NE.new_empty(x_NE.shape[0])
        grad_x = torch.empty_like(x_NE) if wants_x else None
        keeps = len(x_NE) * weight_EV.shape[1] * x_NE.itemsize <= KEPT_BYTES
        ctx.slopes = [] if keeps and (wants_weight or wants_bias) else None
        offset_V = bias_V * LOG2_E
        for start in range(0, x_NE.shape[0], chunk):
            rows = slice(start, start + chunk)
            share, total, chosen = _shares(offset_V, x_NE[rows], weight_EV, target_N[rows, None])
            loss_N[rows] = (total.log2() - chosen).squeeze(1) / LOG2_E
            if grad_x is not None:
                grad_x[rows] = product(share, weight_EV.T) / total
                grad_x[rows] -= weight_EV.T[target_N[rows]]
            if ctx.slopes is not None:
                ctx.slopes.append(_slope(share, total, target_N[rows, None]))
        ctx.save_for_backward(x_NE, weight_EV, bias_V, target_N, *([] if grad_x is None else [grad_x]))
        ctx.chunk = chunk
        return loss_N

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_N: Tensor) -> tuple[Tensor | None, ...]:
        x_NE, weight_EV, bias_V, target_N, *rest = ctx.saved_tensors
        grad_x = rest[0] * grad_N[:, None] if rest else None
        _, wants_weight, wants_bias, *_ = ctx.needs_input_grad
        grad_weight = grad_bias = None
        for i, start in enumerate(range(0, x_NE.shape[0], ctx.chunk) if wants_weight or wants_bias else ()):
            rows = slice(start, start + ctx.chunk)
            if ctx.slopes is None:
                target = target_N[rows, None]
                slope = _slope(*_shares(bias_V * LOG2_E, x_NE[rows], weight_EV, target)[:2], target)
            else:
                slope = ctx.slopes[i]
            slope.mul_(grad_N[rows, None])
            if wants_weight:
                part = x_NE[rows].T @ slope
                grad_weight = part if grad_weight is None else grad_weight.add_(part)
            if wants_bias:
                part = slope.sum(0)
                grad_bias = part if grad_bias is None else grad_bias.add_(part)
        return grad_x, grad_weight, grad_bias, None, None


def _slope(share: Tensor, total: Tensor, target_N1: Tensor) -> Tensor:
    """∂ℓ/∂logits, in place."""
    return share.div_(total).scatter_add_(1, target_N1, -torch.ones_like(total))


def cross_entropy(x_CNE: Tensor, weight: Tensor, bias: Tensor, target_CN: Tensor) -> Tensor:
    """Per-token cross-entropy (nats), shape (C, N).

    `weight` is (E, V) when all chains share it, or (C, E, V); `bias` (V) or (C, V) likewise. A frozen weight may be of
    less precision than x: the products with it then are, and nothing else. Twice differentiating is refused by torch.
    When the unembedding itself is to be differentiated, the probabilities are kept for the backward pass up to
    KEPT_BYTES for a chain; else nothing of size N × V is.
    """
    chains, tokens, width = x_CNE.shape
    chunk = chunk_tokens(weight.shape[-1], x_CNE.dtype)
    if weight.dim() == 2 and bias.dim() == 1:
        flat = _fused(x_CNE.reshape(-1, width), weight, bias, target_CN.reshape(-1), chunk)
        return flat.view(chains, tokens)
    weight_CEV, bias_CV = weight.expand(chains, *weight.shape[-2:]), bias.expand(chains, bias.shape[-1])
    return torch.stack([_fused(x_CNE[c], weight_CEV[c], bias_CV[c], target_CN[c], chunk) for c in range(chains)])

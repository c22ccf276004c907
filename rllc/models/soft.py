"""The loss against another model's next-token distribution q in place of the text's own tokens, in chunks of tokens.

    cross-entropy  H(q, p) = log Σ exp z − Σ q z,      KL(q‖p) = H(q, p) − H(q),      ∂/∂x = (p − q) Wᵀ,   z = x W + b

with x the model's last residual stream after its LayerNorm and q the softmax of the baseline's logits, computed for one
chunk at a time from the baseline's own stream, so that neither model's logits are ever all in memory. On the contexts
of a text this is the second refinement of Wang et al. (ICLR 2025, arXiv 2410.02984): the data's labels replaced.

Shapes: C chains, B rows of a minibatch, N tokens of a chain, L positions, E residual width, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rllc.models import decoder
from rllc.models.chains import Weights
from rllc.models.loss import LOG2_E, chunk_tokens, product
from rllc.models.pool import Pool

Head = tuple[Tensor, Tensor, Tensor]
"""What logits are made of: stream (N, E), matrix (E, V), bias (V)."""


@dataclass(frozen=True)
class Labels:
    """The baseline on the rows of a dataset; `kind` is "kl", KL(q‖p), or "ce", the cross-entropy H(q, p).

    `baseline` is its pool: of the same rows and block, perhaps of another depth and width.
    """

    kind: str
    baseline: Pool

    def losses(self, weights: Weights, last_CBLE: Tensor, rows_CB: Tensor) -> Tensor:
        """Mean loss (nats) of each row from what the unembedding reads, shape (C, B)."""
        (chains, rows), frozen, x_CNE = rows_CB.shape, self.baseline.frozen, last_CBLE.flatten(1, 2)
        seen_CNE = self.baseline.once("last", self._compute_last)(rows_CB).flatten(1, 2)
        matrix, bias = weights["unembed"], weights["unembed.b"]
        each = [
            divergence(
                (x_CNE[c], matrix if matrix.dim() == 2 else matrix[c], bias if bias.dim() == 1 else bias[c]),
                (seen_CNE[c], frozen["unembed"], frozen["unembed.b"]),
                self.kind,
            )
            for c in range(chains)
        ]
        return torch.stack(each).view(chains, rows, -1).mean(2)

    def _compute_last(self, rows_CB: Tensor) -> Tensor:
        model = self.baseline.model
        return decoder.last(self.baseline.weights, self.baseline.stream(model.n_layers, rows_CB), model)


def divergence(head: Head, label: Head, kind: str) -> Tensor:
    """H(q, p) ("ce") or KL(q‖p) ("kl") of each token (nats), (N,): p of the model's `head`, q of the baseline's.

    Differentiable in all of `head`, through the mean over tokens only; at equal heads the KL and its gradients are 0.
    """
    return _Soft.apply(*head, *label, kind)  # type: ignore[no-any-return,no-untyped-call]


class _Soft(torch.autograd.Function):
    """All gradients are found in the same pass over the chunks, and scaled backwards by one number for all tokens."""

    @staticmethod
    def forward(
        ctx: Any, x_NE: Tensor, matrix: Tensor, bias: Tensor, seen_NE: Tensor, label: Tensor, label_bias: Tensor,
        kind: str,
    ) -> Tensor:  # fmt: skip
        loss_N, grad_x = x_NE.new_empty(len(x_NE)), torch.empty_like(x_NE)
        grad_matrix, grad_bias = (
            torch.zeros_like(array) if wanted else None
            for array, wanted in zip((matrix, bias), ctx.needs_input_grad[1:3], strict=True)
        )
        chunk = chunk_tokens(matrix.shape[1], x_NE.dtype)
        for start in range(0, len(x_NE), chunk):
            rows = slice(start, start + chunk)
            z_NV, goal_NV = _logits(x_NE[rows], matrix, bias), _logits(seen_NE[rows], label, label_bias)
            (p_NV, level_N), (q_NV, goal_N) = _softmax(z_NV), _softmax(goal_NV)
            if kind == "kl":
                level_N, z_NV = level_N - goal_N, z_NV.sub_(goal_NV)
            loss_N[rows] = (level_N - (q_NV * z_NV).sum(1)) / LOG2_E
            slope_NV = p_NV.sub_(q_NV)
            grad_x[rows] = product(slope_NV, matrix.T)
            if grad_matrix is not None:
                grad_matrix.addmm_(x_NE[rows].T, slope_NV)
            if grad_bias is not None:
                grad_bias.add_(slope_NV.sum(0))
        ctx.save_for_backward(grad_x, grad_matrix, grad_bias)
        return loss_N

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_N: Tensor) -> tuple[Tensor | None, ...]:
        assert grad_N.is_cuda or (grad_N == grad_N[0]).all(), "only the mean over tokens can be differentiated"
        grads = (None if array is None else array * grad_N[0] for array in ctx.saved_tensors)
        return *grads, *[None] * 4


def _logits(x_NE: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    """Logits to base 2."""
    return product(x_NE, matrix).add_(bias).mul_(LOG2_E)


def _softmax(z: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities of logits to base 2, and log₂ Σ 2^z."""
    top = z.amax(1, keepdim=True)
    share = (z - top).exp2_()
    total = share.sum(1, keepdim=True)
    return share.div_(total), (total.log2() + top).squeeze(1)

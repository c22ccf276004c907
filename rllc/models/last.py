"""The loss as a function of one head of the last layer: its K channels are all that moves the logits.

With the head's mixed values z and output matrix O, and everything else frozen, the centred last residual stream is
r + zᵀ(O − O*) + (z − z*)ᵀO* (O centred too), its scale s = 1/√(mean r² + ε), and the logits

    s · (B + zᵀ(A − A*) + (z − z*)ᵀA*) + c,    A = O · diag(w) · U,   B = r* · diag(w) · U,   c = b U + u

with LayerNorm's w and b, and the unembedding U and u. B belongs to the frozen rest, so that a step multiplies by 2K
and by K channels instead of by all of the stream, and w* gives the frozen logits exactly.

Shapes: C chains, N tokens of a chain, K channels of the head, V vocabulary, E residual width.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rllc.models.loss import LOG2_E, chunk_tokens

Base = Callable[[int, slice], Tensor]
"""B of some tokens of a chain, (n, V), to be overwritten."""


def losses(
    mixed_CKN: Tensor, logit_CKV: Tensor, scale_CN: Tensor, *, frozen: tuple[Tensor, Tensor], base: Base,
    offset_V: Tensor, target_CN: Tensor, rows: int,
) -> Tensor:  # fmt: skip
    """Mean next-token cross-entropy (nats) of each of the `rows` that the tokens of a chain belong to, (C, B).

    `mixed` is z, `logit` A, `scale` s; `frozen` are z* and A*, `offset` c. Differentiable through the mean over rows
    only, as a chain's gradient is.
    """
    loss_CN: Tensor = _LowRank.apply(  # type: ignore[no-untyped-call]
        mixed_CKN, logit_CKV, scale_CN, frozen, base, offset_V * LOG2_E, target_CN
    )
    return loss_CN.view(len(loss_CN), rows, -1).mean(2)


class _LowRank(torch.autograd.Function):
    """All gradients are found in the same pass over the logits."""

    @staticmethod
    def forward(
        ctx: Any, mixed_CKN: Tensor, logit_CKV: Tensor, scale_CN: Tensor, frozen: tuple[Tensor, Tensor], base: Base,
        offset_V: Tensor, target_CN: Tensor,
    ) -> Tensor:  # fmt: skip
        chains, _, tokens = mixed_CKN.shape
        chunk = chunk_tokens(logit_CKV.shape[2], mixed_CKN.dtype)
        moved_CKN = torch.cat([mixed_CKN, mixed_CKN - frozen[0]], 1)
        moved_CKV = torch.cat([logit_CKV - frozen[1], frozen[1].expand_as(logit_CKV)], 1)
        loss_CN = torch.empty_like(scale_CN)
        grads = [torch.empty_like(mixed_CKN), torch.zeros_like(logit_CKV), torch.empty_like(scale_CN)]
        for chain in range(chains):
            for start in range(0, tokens, chunk):
                rows = slice(start, start + chunk)
                at = chain, slice(None), rows
                scale, target = scale_CN[chain, rows, None], target_CN[chain, rows, None]
                stream = base(chain, rows).addmm_(moved_CKN[at].T, moved_CKV[chain])
                share = torch.addcmul(offset_V, stream, scale, value=LOG2_E)  # logits to base 2, then 2^(… − max)
                share.sub_(share.amax(1, keepdim=True))
                chosen = share.gather(1, target)
                total = share.exp2_().sum(1, keepdim=True)
                loss_CN[chain, rows] = (total.log2() - chosen).squeeze(1) / LOG2_E
                share.div_(total).scatter_add_(1, target, -torch.ones_like(total))
                torch.mul(logit_CKV[chain] @ share.T, scale.T, out=grads[0][at])
                grads[1][chain].addmm_(mixed_CKN[at] * scale.T, share)
                grads[2][chain, rows] = stream.mul_(share).sum(1)
        ctx.save_for_backward(*grads)
        return loss_CN

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_CN: Tensor) -> tuple[Tensor | None, ...]:
        assert grad_CN.is_cuda or (grad_CN == grad_CN[:, :1]).all(), "only the mean over rows can be differentiated"
        mixed, logit, scale = ctx.saved_tensors
        each_C = grad_CN[:, 0]
        return mixed * each_C[:, None, None], logit * each_C[:, None, None], scale * each_C[:, None], *[None] * 4

"""The loss as a function of one head of the last layer: its K channels are all that moves the logits.

With the head's mixed values z and output matrix O, and everything else frozen, the centred last residual stream is
r + zᵀ(O − O*) + (z − z*)ᵀO* (O centred too), its scale s = 1/√(mean r² + ε), and the logits

    s · (B + zᵀ(A − A*) + (z − z*)ᵀA*) + c,    A = O · diag(w) · U,   B = r* · diag(w) · U,   c = b U + u

with LayerNorm's w and b, and the unembedding U and u. B belongs to the frozen rest, so that a step multiplies by 2K
and by K channels instead of by all of the stream, and w* gives the frozen logits exactly.

Several heads may move at once, each in chains of its own on the same rows: B is then found once for all of them.

Shapes: C chains, N tokens of a chain, K channels of the head, V vocabulary, E residual width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rllc.models.loss import LOG2_E, chunk_tokens

Base = Callable[[int, slice], Tensor]
"""B of some tokens of a chain, (n, V), to be overwritten."""


@dataclass(frozen=True)
class Moved:
    """What the chains of one head are at: z, A and s, and z* and A* of the frozen head."""

    mixed_CKN: Tensor
    logit_CKV: Tensor
    scale_CN: Tensor
    mixed_at_start_CKN: Tensor
    logit_at_start_CKV: Tensor


def losses(heads: Sequence[Moved], *, base: Base, offset_V: Tensor, target_CN: Tensor, rows: int) -> list[Tensor]:
    """Mean next-token cross-entropy (nats) of each of the `rows` that the tokens of a chain belong to, (C, B) a head.

    `offset` is c. Differentiable through the mean over rows only, as a chain's gradient is. A head's numbers are to the
    bit those that it has alone.
    """
    moving = [array for head in heads for array in (head.mixed_CKN, head.logit_CKV, head.scale_CN)]
    found = _LowRank.apply(heads, base, offset_V * LOG2_E, target_CN, *moving)  # type: ignore[no-untyped-call]
    return [loss_CN.view(len(loss_CN), rows, -1).mean(2) for loss_CN in found]


class _LowRank(torch.autograd.Function):
    """All gradients are found in the same pass over the logits."""

    @staticmethod
    def forward(
        ctx: Any, heads: Sequence[Moved], base: Base, offset_V: Tensor, target_CN: Tensor, *_: Tensor
    ) -> tuple[Tensor, ...]:
        chunk = chunk_tokens(len(offset_V), offset_V.dtype)
        passes = [_Pass(head) for head in heads]
        for chain in range(len(target_CN)):
            for start in range(0, target_CN.shape[1], chunk):
                tokens = slice(start, start + chunk)
                logits, target = base(chain, tokens), target_CN[chain, tokens, None]
                for one in passes[:-1]:
                    one.add(chain, tokens, logits.clone(), offset_V, target)
                passes[-1].add(chain, tokens, logits, offset_V, target)
        ctx.save_for_backward(*(array for one in passes for array in one.grads))
        return tuple(one.loss_CN for one in passes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        found: list[Tensor | None] = [None] * 4
        for place, grad_CN in enumerate(grads):
            assert grad_CN.is_cuda or (grad_CN == grad_CN[:, :1]).all(), "only the mean over rows can be differentiated"
            mixed, logit, scale = ctx.saved_tensors[3 * place : 3 * place + 3]
            each_C = grad_CN[:, 0]
            found += [mixed * each_C[:, None, None], logit * each_C[:, None, None], scale * each_C[:, None]]
        return tuple(found)


class _Pass:
    """The losses of one head, and their gradients in z, A and s, as chunks of the frozen logits come by."""

    def __init__(self, head: Moved) -> None:
        self.head, self.loss_CN = head, torch.empty_like(head.scale_CN)
        mixed, logit = head.mixed_CKN, head.logit_CKV
        self.grads = torch.empty_like(mixed), torch.zeros_like(logit), torch.empty_like(head.scale_CN)
        self._change_CKN = torch.cat([mixed, mixed - head.mixed_at_start_CKN], 1)
        self._change_CKV = torch.cat([logit - head.logit_at_start_CKV, head.logit_at_start_CKV.expand_as(logit)], 1)

    def add(self, chain: int, tokens: slice, stream: Tensor, offset_V: Tensor, target: Tensor) -> None:
        """Take some tokens of a chain; `stream` is their B, and is overwritten."""
        head, at = self.head, (chain, slice(None), tokens)
        scale = head.scale_CN[chain, tokens, None]
        stream.addmm_(self._change_CKN[at].T, self._change_CKV[chain])
        share = torch.addcmul(offset_V, stream, scale, value=LOG2_E)  # logits to base 2, then 2^(… − max)
        share.sub_(share.amax(1, keepdim=True))
        chosen = share.gather(1, target)
        total = share.exp2_().sum(1, keepdim=True)
        self.loss_CN[chain, tokens] = (total.log2() - chosen).squeeze(1) / LOG2_E
        share.div_(total).scatter_add_(1, target, -torch.ones_like(total))
        of_mixed, of_logit, of_scale = self.grads
        torch.mul(head.logit_CKV[chain] @ share.T, scale.T, out=of_mixed[at])
        of_logit[chain].addmm_(head.mixed_CKN[at] * scale.T, share)
        of_scale[chain, tokens] = stream.mul_(share).sum(1)

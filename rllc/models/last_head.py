"""The loss as a function of one head of the last layer, whose channels alone reach the logits.

Shapes: C chains, B rows of a minibatch, L positions, E residual width, K head width, N tokens, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from rllc.models import attention, last
from rllc.models.chains import in_turn
from rllc.models.norm import centre
from rllc.models.one_head import OneHead
from rllc.models.pool import Pool


class LastHead:
    """Some or all matrices of one head of the last layer: only its channels move the logits (see `models.last`).

    No MLP reads what the head writes: there is none, or it stands beside the heads.
    """

    def __init__(self, pool: Pool, owner: str, live: list[str]) -> None:
        self.pool, self.layer, self.names = pool, pool.model.n_layers - 1, live
        self._head = OneHead(pool, owner, live)
        self.start = self._head.start
        with torch.no_grad():
            out = self._head.join(self._start(pool.chains))["out"].expand(pool.chains, -1, -1)
            self._out = centre(out, pool.model)
            self._logit = self._logits(self._out)
        self.offset_V = pool.weights["unembed.b"]
        if "final.b" in pool.weights:
            self.offset_V = pool.weights["final.b"] @ pool.weights["unembed"] + self.offset_V
        self._mixed = pool.once(f"mixed {live}", lambda rows_CB: self._mix(self._start(len(rows_CB)), rows_CB))
        self.reference = pool.once("reference last", lambda rows_CB: self.losses(self._start(len(rows_CB)), rows_CB))

    def losses(self, live: Sequence[Tensor], rows_CB: Tensor) -> Tensor:
        """Loss of each row (nats), shape (C, B); each live array has a leading chain axis."""
        return losses([self], [live], rows_CB)[0]

    def moved(self, live: list[Tensor], rows_CB: Tensor) -> last.Moved:
        """What the head's chains are at."""
        pool, chains = self.pool, len(rows_CB)
        out_CKE = centre(self._head.join(live)["out"].expand(chains, -1, -1), pool.model)
        mixed, frozen = (_tokens(array) for array in (self._mix(live, rows_CB), self._mixed(rows_CB)))
        moved = torch.cat([mixed, mixed - frozen], 1).transpose(1, 2)
        stream = pool.centred(rows_CB).flatten(1, 2)
        stream = torch.baddbmm(stream, moved, torch.cat([out_CKE - self._out, self._out], 1))
        scale_CN = (stream.square().mean(2) + pool.model.eps).rsqrt()
        return last.Moved(mixed, self._logits(out_CKE), scale_CN, frozen, self._logit)

    def close(self) -> None:
        """Free what was kept for this head alone."""
        self._head.close()
        self.pool.forget(f"mixed {self.names}")

    def _start(self, chains: int) -> list[Tensor]:
        return [array.expand(chains, *array.shape) for array in self.start]

    def _mix(self, live: list[Tensor], rows_CB: Tensor) -> Tensor:
        content = self.pool.content(self.layer, rows_CB)
        mixed = attention.mix(self._head.join(live), content, self._head.place, self.pool.model)
        return mixed.view(*rows_CB.shape, *mixed.shape[1:])

    def _logits(self, out_CKE: Tensor) -> Tensor:
        return out_CKE * self.pool.weights["final.w"] @ self.pool.weights["unembed"]


def losses(heads: Sequence[LastHead], live: Sequence[Sequence[Tensor]], rows_CB: Tensor) -> list[Tensor]:
    """Loss of each row (nats), (C, B) for each head, of chains in which no other head moves.

    What the frozen stream gives to the logits is found once; each head's losses and gradients are to the bit its own.
    """
    pool = heads[0].pool

    def some(flat: Sequence[Tensor], rows_CB: Tensor) -> list[Tensor]:
        arrays = iter(flat)
        return last.losses(
            [head.moved([next(arrays) for _ in head.start], rows_CB) for head in heads], base=pool.base(rows_CB),
            offset_V=heads[0].offset_V, target_CN=pool.tokens_NL[rows_CB][:, :, 1:].flatten(1), rows=rows_CB.shape[1],
        )  # fmt: skip

    return in_turn(some, [array for arrays in live for array in arrays], rows_CB, pool.chains)


def _tokens(mixed_CBKL: Tensor) -> Tensor:
    """Channels × tokens with a next token, (C, K, N)."""
    return mixed_CBKL[..., :-1].transpose(1, 2).flatten(2)

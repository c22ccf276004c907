"""The loss as a function of one part of the weights, the rest frozen at w*: what cannot change is computed once.

A part is a split of the weights into arrays of its own and a frozen rest, never a mask; what is frozen comes from the
`Pool`.

Shapes: C chains, B rows of a minibatch, L positions, E residual width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from rllc.config import Model
from rllc.models import decoder, sharing
from rllc.models.chains import Weights, in_turn
from rllc.models.last_head import LastHead
from rllc.models.layout import names
from rllc.models.one_head import OWNER, OneHead, owned
from rllc.models.parts import of
from rllc.models.pool import Pool


class Several:
    """Any other part: everything from its lowest layer on is computed with the live arrays in their places.

    Where nothing of that layer but its MLP moves, its heads are frozen too.
    """

    def __init__(self, pool: Pool, live: list[str]) -> None:
        self.pool, self.names = pool, live
        places = {name: (stack, at) for name, stack, at in names(pool.model)}
        self._places = [places[name] for name in live]
        self.start = [_at(pool.weights, place).contiguous() for place in self._places]
        stacks = {stack for stack, _ in self._places}
        self._lowest = min(_depth(stack, pool.model) for stack in stacks)
        mlp = (f"L{self._lowest}.mlp", f"L{self._lowest}.ln2")
        self._above_heads = 0 <= self._lowest < pool.model.n_layers and all(
            stack.startswith(mlp) for stack in stacks if _depth(stack, pool.model) == self._lowest
        )
        self.reference = pool.once(f"reference {'+'.join(live)}", self._compute_reference)

    def losses(self, live: Sequence[Tensor], rows_CB: Tensor) -> Tensor:
        """Loss of each row (nats), shape (C, B); each live array has a leading chain axis."""
        return in_turn(self._losses, live, rows_CB, self.pool.chains)[0]

    def _losses(self, live: Sequence[Tensor], rows_CB: Tensor) -> list[Tensor]:
        pool, model, weights = self.pool, self.pool.model, self._merge(live)
        first = max(self._lowest, 0)
        if self._lowest < 0:
            x_CBLE = decoder.embed(weights, pool.tokens_NL[rows_CB], model)
        else:
            x_CBLE = pool.stream(first, rows_CB)
        if self._above_heads:
            x_CBLE = decoder.finish(weights, first, x_CBLE, pool.middle(first, rows_CB), model)
            first += 1
        for index in range(first, model.n_layers):
            x_CBLE = decoder.layer(weights, index, x_CBLE, model)
        return [pool.losses(weights, x_CBLE, rows_CB)]

    def close(self) -> None:
        """Free what was kept for this part alone."""
        self.pool.forget(f"reference {'+'.join(self.names)}")

    def _compute_reference(self, rows_CB: Tensor) -> Tensor:
        return self.losses([array.expand(len(rows_CB), *array.shape) for array in self.start], rows_CB)

    def _merge(self, live: Sequence[Tensor]) -> Weights:
        weights, by_stack = dict(self.pool.frozen), dict[str, dict[int, Tensor]]()
        for (stack, at), array in zip(self._places, live, strict=True):
            if at is None:
                weights[stack] = array
                weights |= {"unembed": array.mT} if stack == "embed" and self.pool.model.tied else {}
            else:
                by_stack.setdefault(stack, {})[at] = array
        for stack, moving in by_stack.items():
            frozen = weights[stack]
            chains = len(next(iter(moving.values())))
            rows = [moving.get(at, frozen[at].expand(chains, *frozen.shape[1:])) for at in range(len(frozen))]
            weights[stack] = torch.stack(rows, 1)
        return weights


def restrict(pool: Pool, part: str) -> OneHead | LastHead | Several:
    """The loss as a function of `part` (a glob over the flat parameter names).

    Raises:
        Mistake: the part matches nothing.
    """
    model = pool.model
    live = of(model, part)
    owners = {name.partition(".")[0] for name in live}
    owner = owners.pop() if len(owners) == 1 else ""
    if not OWNER.fullmatch(owner):
        return Several(pool, live)
    last_layer = owned(owner, model)[0] == model.n_layers - 1
    read_by_none = pool.loss is None and sharing.alone(model)
    rows, length = pool.tokens_NL.shape
    pays = sharing.through_channels(model, (rows, length), pool.batch, pool.weights["embed"].itemsize)
    if read_by_none and last_layer and "H" in owner and pays:
        return LastHead(pool, owner, live)
    return OneHead(pool, owner, live)


def _at(weights: Weights, place: tuple[str, int | None]) -> Tensor:
    stack, at = place
    return weights[stack] if at is None else weights[stack][at]


def _depth(stack: str, model: Model) -> int:
    """The first layer whose input is not touched by this array; −1 where the embedding itself is."""
    if stack == "embed" or (stack == "pos" and model.positions == "learned"):
        return -1
    if stack == "pos":
        return 0
    return int(stack[1:].partition(".")[0]) if stack.startswith("L") else model.n_layers

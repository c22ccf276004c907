"""The loss as a function of one part of the weights, the rest frozen at w*: what cannot change is computed once.

A part is a split of the weights into arrays of its own and a frozen rest, never a mask; what is frozen comes from the
`Pool`.

Shapes: C chains, B rows of a minibatch, L positions, E residual width, K head width, N tokens, V vocabulary.
"""

import torch
from torch import Tensor

from rllc.config import Model
from rllc.models import attention, last
from rllc.models.attention import Weights
from rllc.models.layout import MATRICES, names
from rllc.models.parts import HEAD, select
from rllc.models.pool import Pool


class OneHead:
    """Some or all matrices of one head: the other heads and everything below come from the pool.

    The stream above the head's layer is the frozen one plus the change of the head's output, r* + (o(w) − o(w*)).
    """

    def __init__(self, pool: Pool, layer: int, head: int, live: list[str]) -> None:
        self.pool, self.layer, self.head, self.names = pool, layer, head, live
        self._frozen = {name: pool.weights[f"L{layer}.{name}"][head : head + 1] for name in MATRICES}
        self._live = [name.partition(".")[2] for name in live]
        self.start = [self._frozen[name][0] for name in self._live]
        self.place = attention.places(pool.weights, pool.model, pool.tokens_NL.shape[1])
        self.reference = pool.reference

    def losses(self, live: list[Tensor], rows_CB: Tensor) -> Tensor:
        """Loss of each row (nats), shape (C, B); each live array has a leading chain axis."""
        pool, model = self.pool, self.pool.model
        output = pool.once(f"output {self.layer}.{self.head}", self._compute_output)
        change = self._head(live, rows_CB) - output(rows_CB)
        x_CBLE = pool.stream(self.layer + 1, rows_CB) + change
        for index in range(self.layer + 1, model.n_layers):
            x_CBLE = pool.layer(index, x_CBLE)
        return pool.losses(pool.frozen, x_CBLE, rows_CB)

    def close(self) -> None:
        """Free what was kept for this head alone."""
        self.pool.forget(f"output {self.layer}.{self.head}")

    def join(self, live: list[Tensor]) -> Weights:
        """The head's arrays as `attention.join` has them, the live ones in their places."""
        moving = {name: array.unsqueeze(1) for name, array in zip(self._live, live, strict=True)}
        return attention.join(self._frozen | moving)

    def _compute_output(self, rows_CB: Tensor) -> Tensor:
        return self._head([array.expand(len(rows_CB), *array.shape) for array in self.start], rows_CB)

    def _head(self, live: list[Tensor], rows_CB: Tensor) -> Tensor:
        return attention.heads(self.join(live), self.pool.content(self.layer, rows_CB), self.place, self.pool.model)


class LastHead:
    """Some or all matrices of one head of the last layer: only its channels move the logits (see `models.last`)."""

    def __init__(self, pool: Pool, head: int, live: list[str]) -> None:
        self.pool, self.layer, self.names = pool, pool.model.n_layers - 1, live
        self._head = OneHead(pool, self.layer, head, live)
        self.start = self._head.start
        with torch.no_grad():
            out = self._head.join(self._start(pool.chains))["out"].expand(pool.chains, -1, -1)
            self._out, self._logit = _centre(out), self._logits(_centre(out))
        self._offset = pool.weights["final.b"] @ pool.weights["unembed"] + pool.weights["unembed.b"]
        self._mixed = pool.once(f"mixed {live}", lambda rows_CB: self._mix(self._start(len(rows_CB)), rows_CB))
        self.reference = pool.once("reference last", lambda rows_CB: self.losses(self._start(len(rows_CB)), rows_CB))

    def losses(self, live: list[Tensor], rows_CB: Tensor) -> Tensor:
        """Loss of each row (nats), shape (C, B); each live array has a leading chain axis."""
        pool, (chains, rows) = self.pool, rows_CB.shape
        out_CKE = _centre(self._head.join(live)["out"].expand(chains, -1, -1))
        mixed, frozen = (_tokens(array) for array in (self._mix(live, rows_CB), self._mixed(rows_CB)))
        moved = torch.cat([mixed, mixed - frozen], 1).transpose(1, 2)
        stream = pool.centred(rows_CB).flatten(1, 2)
        stream = torch.baddbmm(stream, moved, torch.cat([out_CKE - self._out, self._out], 1))
        return last.losses(
            mixed, self._logits(out_CKE), (stream.square().mean(2) + attention.EPS).rsqrt(),
            frozen=(frozen, self._logit), base=pool.base(rows_CB), offset_V=self._offset,
            target_CN=pool.tokens_NL[rows_CB][:, :, 1:].flatten(1), rows=rows,
        )  # fmt: skip

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


class Several:
    """Any other part: everything from its lowest layer on is computed with the live arrays in their places."""

    def __init__(self, pool: Pool, live: list[str]) -> None:
        self.pool, self.names = pool, live
        places = {name: (stack, at) for name, stack, at in names(pool.model)}
        self._places = [places[name] for name in live]
        self.start = [_at(pool.weights, place) for place in self._places]
        self._lowest = min(_depth(stack, pool.model) for stack, _ in self._places)
        self.reference = pool.once(f"reference {'+'.join(live)}", self._compute_reference)

    def losses(self, live: list[Tensor], rows_CB: Tensor) -> Tensor:
        """Loss of each row (nats), shape (C, B); each live array has a leading chain axis."""
        pool, model, weights = self.pool, self.pool.model, self._merge(live)
        if self._lowest < 0:
            x_CBLE = attention.embed(weights, pool.tokens_NL[rows_CB], model)
        else:
            x_CBLE = pool.stream(self._lowest, rows_CB)
        for index in range(max(self._lowest, 0), model.n_layers):
            x_CBLE = attention.layer(weights, index, x_CBLE, model)
        return pool.losses(weights, x_CBLE, rows_CB)

    def close(self) -> None:
        """Free what was kept for this part alone."""
        self.pool.forget(f"reference {'+'.join(self.names)}")

    def _compute_reference(self, rows_CB: Tensor) -> Tensor:
        return self.losses([array.expand(len(rows_CB), *array.shape) for array in self.start], rows_CB)

    def _merge(self, live: list[Tensor]) -> Weights:
        weights, by_stack = dict(self.pool.frozen), dict[str, dict[int, Tensor]]()
        for (stack, at), array in zip(self._places, live, strict=True):
            if at is None:
                weights[stack] = array
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
    live = select(part, [name for name, _, _ in names(pool.model)])
    owners = {name.partition(".")[0] for name in live}
    match = HEAD.fullmatch(owners.pop()) if len(owners) == 1 else None
    if match is None:
        return Several(pool, live)
    layer, head = int(match[1]), int(match[2])
    ends = layer == pool.model.n_layers - 1 and pool.loss is None
    return LastHead(pool, head, live) if ends else OneHead(pool, layer, head, live)


def _centre(array: Tensor) -> Tensor:
    return array - array.mean(-1, keepdim=True)


def _tokens(mixed_CBKL: Tensor) -> Tensor:
    """Channels × tokens with a next token, (C, K, N)."""
    return mixed_CBKL[..., :-1].transpose(1, 2).flatten(2)


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

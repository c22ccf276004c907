"""The loss as a function of one part of the weights, the rest frozen at w*: what cannot change is computed once.

A `Pool` belongs to one checkpoint and one dataset. It keeps what all parts share: the residual streams at w* and the
reference loss of each row. A part is then a split of the weights into arrays of its own and a frozen rest, never a
mask. Everything is computed in blocks of the planned shape (C, B), so that a chain that stays at w* gives exactly
its reference.

Shapes: C chains, B rows of a minibatch, N rows of the pool, L positions, E residual width.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from rllc.config import Model
from rllc.models import attention
from rllc.models.attention import Weights
from rllc.models.layout import MATRICES, names
from rllc.models.parts import HEAD, select

CACHE_BYTES = 288 * 2**20  # of one array kept for the whole pool; three are kept at a time


class Pool:
    """One checkpoint on the estimation rows of one dataset.

    `tokens_NL` are the rows; `chains` and `batch` the shape of every block.
    """

    def __init__(self, weights: Weights, model: Model, tokens_NL: Tensor, *, chains: int, batch: int) -> None:
        self.weights, self.model, self.tokens_NL = weights, model, tokens_NL
        self.chains, self.batch = chains, batch
        self._kept: dict[str, Tensor] = {}
        self._large: set[str] = set()
        self._recent: dict[str, tuple[Tensor, Tensor]] = {}

    def stream(self, layer: int, rows_CB: Tensor) -> Tensor:
        """The residual stream before `layer` at w* on the given rows, shape (C, B, L, E)."""

        def compute(rows_CB: Tensor) -> Tensor:
            if layer == 0:
                return attention.embed(self.weights, self.tokens_NL[rows_CB], self.model)
            return attention.layer(self.weights, layer - 1, self.stream(layer - 1, rows_CB), self.model)

        streams = self.once(f"stream {layer}", compute)
        self.forget(f"stream {layer - 2}")  # two neighbours are enough: a layer's input and its output
        return streams(rows_CB)

    def reference(self, rows_CB: Tensor) -> Tensor:
        """The loss of each row at w* (nats), shape (C, B); any C will do here."""

        def compute(rows_CB: Tensor) -> Tensor:
            last = self.stream(self.model.n_layers, rows_CB)
            return attention.losses(self.weights, last, self.tokens_NL[rows_CB])

        return self.once("reference", compute)(rows_CB)

    def once(self, name: str, compute: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """A look-up into what `compute` gives for all rows of the pool.

        Where that is too large to keep, it is computed when asked for, once for each minibatch.
        """
        if name not in self._kept and name not in self._large:
            self._keep(name, compute)
        if name in self._large:
            return partial(self._for_minibatch, name, compute)
        kept = self._kept[name]
        return lambda rows_CB: kept[rows_CB]

    def forget(self, *names: str) -> None:
        """Free what `once` kept under these names."""
        for name in names:
            self._kept.pop(name, None)
            self._recent.pop(name, None)

    @torch.no_grad()
    def _keep(self, name: str, compute: Callable[[Tensor], Tensor]) -> None:
        blocks = self._blocks()
        first = compute(blocks[0])
        row_bytes = first[0, 0].numel() * first.element_size()
        if row_bytes * len(self.tokens_NL) > CACHE_BYTES:
            self._large.add(name)
            return
        parts = [first.flatten(0, 1), *(compute(block).flatten(0, 1) for block in blocks[1:])]
        self._kept[name] = torch.cat(parts)[: len(self.tokens_NL)]

    @torch.no_grad()
    def _for_minibatch(self, name: str, compute: Callable[[Tensor], Tensor], rows_CB: Tensor) -> Tensor:
        """Compute for these rows, unless they are the very ones that were asked for last."""
        rows, value = self._recent.get(name, (None, None))
        if rows is not rows_CB or value is None:
            value = compute(rows_CB)
            self._recent[name] = (rows_CB, value)
        return value

    def _blocks(self) -> Tensor:
        size = self.chains * self.batch
        count = -(-len(self.tokens_NL) // size)
        rows = torch.arange(count * size, device=self.tokens_NL.device) % len(self.tokens_NL)
        return rows.view(count, self.chains, self.batch)


class OneHead:
    """Some or all matrices of one head: the other heads and everything below come from the pool.

    The stream above the head's layer is the frozen one plus the change of the head's output, r* + (o(w) − o(w*)).
    """

    def __init__(self, pool: Pool, layer: int, head: int, live: list[str]) -> None:
        self.pool, self.layer, self.names = pool, layer, live
        self._frozen = {name: pool.weights[f"L{layer}.{name}"][head : head + 1] for name in MATRICES}
        self._live = [name.partition(".")[2] for name in live]
        self.start = [self._frozen[name][0] for name in self._live]
        self.reference = pool.reference
        self._output = pool.once(f"output {layer}.{head}", self._compute_output)

    def losses(self, live: list[Tensor], rows_CB: Tensor) -> Tensor:
        """Loss of each row (nats), shape (C, B); each live array has a leading chain axis."""
        pool, model = self.pool, self.pool.model
        change = self._head(live, rows_CB) - self._output(rows_CB)
        x_CBLE = pool.stream(self.layer + 1, rows_CB) + change
        for index in range(self.layer + 1, model.n_layers):
            x_CBLE = attention.layer(pool.weights, index, x_CBLE, model)
        return attention.losses(pool.weights, x_CBLE, pool.tokens_NL[rows_CB])

    def close(self) -> None:
        """Free what was kept for this head alone."""
        self.pool.forget(f"output {self.layer}.{self.names[0].partition('.')[0].partition('H')[2]}")

    def _compute_output(self, rows_CB: Tensor) -> Tensor:
        return self._head([array.expand(len(rows_CB), *array.shape) for array in self.start], rows_CB)

    def _head(self, live: list[Tensor], rows_CB: Tensor) -> Tensor:
        pool = self.pool
        with torch.no_grad():
            below = pool.stream(self.layer, rows_CB)
            address, content = attention.inputs(pool.weights, self.layer, below, pool.model)
        moving = {name: array.unsqueeze(1) for name, array in zip(self._live, live, strict=True)}
        return attention.heads(self._frozen | moving, address, content)


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
        return attention.losses(weights, x_CBLE, pool.tokens_NL[rows_CB])

    def close(self) -> None:
        """Free what was kept for this part alone."""
        self.pool.forget(f"reference {'+'.join(self.names)}")

    def _compute_reference(self, rows_CB: Tensor) -> Tensor:
        return self.losses([array.expand(len(rows_CB), *array.shape) for array in self.start], rows_CB)

    def _merge(self, live: list[Tensor]) -> Weights:
        weights, by_stack = dict(self.pool.weights), dict[str, dict[int, Tensor]]()
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


def restrict(pool: Pool, part: str) -> OneHead | Several:
    """The loss as a function of `part` (a glob over the flat parameter names).

    Raises:
        Mistake: the part matches nothing.
    """
    live = select(part, [name for name, _, _ in names(pool.model)])
    owners = {name.partition(".")[0] for name in live}
    match = HEAD.fullmatch(owners.pop()) if len(owners) == 1 else None
    return OneHead(pool, int(match[1]), int(match[2]), live) if match else Several(pool, live)


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

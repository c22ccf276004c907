"""The loss as a function of one head: the other heads and everything below are computed once.

Shapes: C chains, B rows of a minibatch, L positions, E residual width.
"""

import re
from collections.abc import Sequence

from torch import Tensor

from rllc.config import Model
from rllc.models import attention, decoder
from rllc.models.chains import Weights, in_turn
from rllc.models.layout import groups
from rllc.models.pool import Pool

OWNER = re.compile(r"L(\d+)([HG])(\d+)")


class OneHead:
    """Some or all matrices of one head, or of one group of heads that share keys and values.

    The other heads and everything below come from the pool. The stream above the heads is the frozen one plus the
    change of their output, r* + (o(w) − o(w*)); an MLP that reads it comes next, one beside the heads is frozen too.
    """

    def __init__(self, pool: Pool, owner: str, live: list[str]) -> None:
        self.pool, self.owner, self.names = pool, owner, live
        self.layer, heads = owned(owner, pool.model)
        self._frozen = attention.some(pool.weights, self.layer, heads, pool.model)
        self._live = [name.partition(".")[2] for name in live]
        self.start = [self._frozen[name][0].contiguous() for name in self._live]
        self.place = attention.places(pool.weights, pool.model, pool.tokens_NL.shape[1])
        self.reference = pool.reference

    def losses(self, live: Sequence[Tensor], rows_CB: Tensor) -> Tensor:
        """Loss of each row (nats), shape (C, B); each live array has a leading chain axis."""
        return in_turn(self._losses, live, rows_CB, self.pool.chains)[0]

    def _losses(self, live: Sequence[Tensor], rows_CB: Tensor) -> list[Tensor]:
        pool, model = self.pool, self.pool.model
        output = pool.once(f"output {self.owner}", self._compute_output)
        change = self._head(live, rows_CB) - output(rows_CB)
        if model.d_mlp and not model.parallel:
            middle = pool.middle(self.layer, rows_CB) + change
            x_CBLE = decoder.finish(pool.weights, self.layer, middle, middle, model)
        else:
            x_CBLE = pool.stream(self.layer + 1, rows_CB) + change
        for index in range(self.layer + 1, model.n_layers):
            x_CBLE = pool.layer(index, x_CBLE)
        return [pool.losses(pool.frozen, x_CBLE, rows_CB)]

    def close(self) -> None:
        """Free what was kept for this head alone."""
        self.pool.forget(f"output {self.owner}")

    def join(self, live: Sequence[Tensor]) -> Weights:
        """The arrays as `attention.join` has them, the live ones in their places."""
        moving = {name: array.unsqueeze(1) for name, array in zip(self._live, live, strict=True)}
        return attention.join(self._frozen | moving)

    def _compute_output(self, rows_CB: Tensor) -> Tensor:
        return self._head([array.expand(len(rows_CB), *array.shape) for array in self.start], rows_CB)

    def _head(self, live: Sequence[Tensor], rows_CB: Tensor) -> Tensor:
        return attention.heads(self.join(live), self.pool.content(self.layer, rows_CB), self.place, self.pool.model)


def owned(owner: str, model: Model) -> tuple[int, slice]:
    """The layer and the heads that "L0H3" or, as a group of them, "L0G1" stands for."""
    match = OWNER.fullmatch(owner)
    assert match is not None
    place, many = int(match[3]), 1 if match[2] == "H" else model.n_heads // groups(model)
    return int(match[1]), slice(place * many, (place + 1) * many)

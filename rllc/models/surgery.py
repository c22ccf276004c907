"""A head's output taken out of the stream, changed, and put back: what ablations and path patching are made of.

Shapes: C chains, B rows of a block, N rows of the pool, L positions, E residual width.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from rllc.models import attention, decoder
from rllc.models.pool import Pool


def blocks(pool: Pool) -> Iterator[Tensor]:
    """All rows of the pool in blocks (1, B), the last perhaps shorter."""
    return iter(torch.split(pool.every, pool.batch, 1))


def output(pool: Pool, layer: int, head: int, below_CBLE: Tensor) -> Tensor:
    """What one head writes when the stream below its layer is `below`, the output bias left out, (C, B, L, E)."""
    model, joined = pool.model, attention.join(attention.some(pool.weights, layer, slice(head, head + 1), pool.model))
    place = attention.places(pool.weights, model, below_CBLE.shape[2])
    return attention.heads(joined, attention.inputs(pool.weights, layer, below_CBLE, model), place, model)


def changed(pool: Pool, layer: int, change_CBLE: Tensor, rows_CB: Tensor) -> Tensor:
    """Loss of each next token (nats) when `change` is added to what the heads of a layer write, (C, B, L − 1).

    Everything above sees it. The loss is that of the rows' own tokens.
    """
    middle = pool.middle(layer, rows_CB) + change_CBLE
    x_CBLE = decoder.finish(pool.weights, layer, pool.stream(layer, rows_CB), middle, pool.model)
    for index in range(layer + 1, pool.model.n_layers):
        x_CBLE = pool.layer(index, x_CBLE)
    return _losses(pool, x_CBLE, rows_CB)


def unchanged(pool: Pool, rows_CB: Tensor) -> Tensor:
    """Loss of each next token (nats) at w*, (C, B, L − 1); computed once for the pool."""
    compute = pool.once("token losses", lambda rows: _losses(pool, pool.stream(pool.model.n_layers, rows), rows))
    return compute(rows_CB)


def _losses(pool: Pool, x_CBLE: Tensor, rows_CB: Tensor) -> Tensor:
    last_CBLE = decoder.last(pool.weights, x_CBLE, pool.model)
    return decoder.token_losses(pool.weights, last_CBLE, pool.tokens_NL[rows_CB][:, :, 1:])

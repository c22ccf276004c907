"""A pre-norm decoder from tokens to losses, in one code path for all its shapes (`rllc.config.Model`).

Weights are one dict of arrays stacked over the heads of a layer (`L0.q` is H × E × K; `layout.names` says where in it
`L0H3.q` is). Every function takes weights in which any array may carry a leading chain axis.

Shapes: C chains, B rows, L positions, E residual width, H heads, K head width, V vocabulary.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rllc.config import Model
from rllc.models.attention import heads, inputs, join, matrices, places
from rllc.models.chains import Weights, over_rows
from rllc.models.layout import shapes
from rllc.models.loss import cross_entropy
from rllc.models.mlp import mlp
from rllc.models.norm import normalise


def init(model: Model, seed: int) -> Weights:
    """Fresh float32 weights: matrices N(0, 1/fan-in), embeddings and positions N(0, 1), unembedding N(0, 1/(4E))."""
    rng = np.random.default_rng([seed, 0x1217])
    fan_in = {"o": model.n_heads * model.d_head, "out": model.d_mlp}
    weights = {}
    for name, shape in shapes(model).items():
        kind = name.rpartition(".")[2]
        if name in ("embed", "pos"):
            array = rng.standard_normal(shape)
        elif name == "unembed":
            array = rng.standard_normal(shape) * 0.5 / math.sqrt(model.d_model)
        elif kind in ("q", "k", "v", "in", "gate", "o", "out"):
            array = rng.standard_normal(shape) / math.sqrt(fan_in.get(kind, model.d_model))
        else:
            array = np.ones(shape) if kind == "w" else np.zeros(shape)
        weights[name] = torch.tensor(array, dtype=torch.float32)  # in torch's own aligned memory
    return weights


def complete(weights: Weights) -> Weights:
    """The weights with an unembedding matrix and bias, whatever the model: the embedding where tied, and zeros."""
    matrix = weights["unembed"] if "unembed" in weights else weights["embed"].mT
    bias = weights["unembed.b"] if "unembed.b" in weights else matrix.new_zeros(matrix.shape[-1])
    return {**weights, "unembed": matrix, "unembed.b": bias}


def embed(weights: Weights, tokens_CBL: Tensor, model: Model) -> Tensor:
    """The residual stream before layer 0, shape (C, B, L, E)."""
    table = weights["embed"]
    if table.dim() == 2:
        x_CBLE = F.embedding(tokens_CBL, table)
    else:
        x_CBLE = torch.stack([F.embedding(tokens, rows) for tokens, rows in zip(tokens_CBL, table, strict=True)])
    if model.positions != "learned":
        return x_CBLE
    return x_CBLE + over_rows(weights["pos"][..., : x_CBLE.shape[2], :], 2)


def middle(weights: Weights, index: int, x_CBLE: Tensor, model: Model, *, joined: Weights | None = None) -> Tensor:
    """The stream between the heads and the MLP of a layer: x + heads(norm(x)) + output bias, shape (C, B, L, E).

    `joined` are the heads' arrays if joined before.
    """
    joined = joined or join(matrices(weights, index))
    place = places(weights, model, x_CBLE.shape[2])
    out_CBLE = x_CBLE + heads(joined, inputs(weights, index, x_CBLE, model), place, model)
    bias = weights.get(f"L{index}.bo")
    return out_CBLE if bias is None else out_CBLE + over_rows(bias, 1)


def finish(weights: Weights, index: int, x_CBLE: Tensor, middle_CBLE: Tensor, model: Model) -> Tensor:
    """The stream above a layer from those below it and in its middle: m + mlp(m), or m + mlp(x) where parallel."""
    if not model.d_mlp:
        return middle_CBLE
    return middle_CBLE + mlp(weights, index, x_CBLE if model.parallel else middle_CBLE, model)


def layer(weights: Weights, index: int, x_CBLE: Tensor, model: Model, *, joined: Weights | None = None) -> Tensor:
    """The stream above a layer from that below it, shape (C, B, L, E)."""
    return finish(weights, index, x_CBLE, middle(weights, index, x_CBLE, model, joined=joined), model)


def last(weights: Weights, x_CBLE: Tensor, model: Model) -> Tensor:
    """What the unembedding reads of the last stream, at the positions with a next token, shape (C, B, L − 1, E)."""
    return normalise(weights, "final", x_CBLE, model)[:, :, :-1]


def losses(weights: Weights, last_CBLE: Tensor, tokens_CBL: Tensor) -> Tensor:
    """Mean next-token cross-entropy (nats) of each row from `last`, shape (C, B); the weights are `complete`."""
    return token_losses(weights, last_CBLE, tokens_CBL[:, :, 1:]).mean(2)


def token_losses(weights: Weights, last_CBLE: Tensor, target_CBL: Tensor) -> Tensor:
    """Cross-entropy (nats) of each of the targets, (C, B, L − 1), from `last`; the weights are `complete`."""
    loss_CN = cross_entropy(last_CBLE.flatten(1, 2), weights["unembed"], weights["unembed.b"], target_CBL.flatten(1))
    return loss_CN.view(target_CBL.shape)


def forward(weights: Weights, tokens_CBL: Tensor, model: Model) -> Tensor:
    """Mean next-token cross-entropy (nats) of each row, shape (C, B)."""
    x_CBLE = embed(weights, tokens_CBL, model)
    for index in range(model.n_layers):
        x_CBLE = layer(weights, index, x_CBLE, model)
    return losses(complete(weights), last(weights, x_CBLE, model), tokens_CBL)

"""The attention-only transformer: pre-LayerNorm, biases, positions "shortformer" or "learned".

Weights are one dict of arrays stacked over the heads of a layer (`L0.q` is H × E × K); `flat` shows the same memory
under one name per head (`L0H3.q`). Every function takes weights in which any array may carry a leading chain axis.

Shapes: C chains, B rows, L positions, E residual width, H heads, K head width, V vocabulary.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rllc.config import Model
from rllc.models.layout import MATRICES, names, shapes
from rllc.models.loss import cross_entropy

Weights = dict[str, Tensor]

EPS = 1e-5


def init(model: Model, seed: int) -> Weights:
    """Fresh float32 weights: matrices N(0, 1/fan-in), embeddings and positions N(0, 1), unembedding N(0, 1/(4E))."""
    rng = np.random.default_rng([seed, 0x1217])
    weights = {}
    for name, shape in shapes(model).items():
        kind = name.rpartition(".")[2]
        if name in ("embed", "pos"):
            array = rng.standard_normal(shape)
        elif name == "unembed":
            array = rng.standard_normal(shape) * 0.5 / math.sqrt(model.d_model)
        elif kind in ("q", "k", "v"):
            array = rng.standard_normal(shape) / math.sqrt(model.d_model)
        elif kind == "o":
            array = rng.standard_normal(shape) / math.sqrt(model.n_heads * model.d_head)
        else:
            array = np.ones(shape) if kind == "w" else np.zeros(shape)
        weights[name] = torch.tensor(array, dtype=torch.float32)  # in torch's own aligned memory
    return weights


def flat(weights: Weights, model: Model) -> Weights:
    """The flat dict of views: one entry per head matrix, the rest as it is."""
    return {name: weights[stack] if at is None else weights[stack][at] for name, stack, at in names(model)}


def normalise(x_CBLE: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """LayerNorm over E with ε = 1e-5; scale and shift are (E) or (C, E)."""
    if scale.dim() == shift.dim() == 1:
        return F.layer_norm(x_CBLE, x_CBLE.shape[-1:], scale, shift, EPS)
    normal = F.layer_norm(x_CBLE, x_CBLE.shape[-1:], eps=EPS)
    return normal * _over_rows(scale, 1) + _over_rows(shift, 1)


def embed(weights: Weights, tokens_CBL: Tensor, model: Model) -> Tensor:
    """The residual stream before layer 0, shape (C, B, L, E)."""
    table = weights["embed"]
    if table.dim() == 2:
        x_CBLE = F.embedding(tokens_CBL, table)
    else:
        x_CBLE = torch.stack([F.embedding(tokens, rows) for tokens, rows in zip(tokens_CBL, table, strict=True)])
    return x_CBLE + _positions(weights, x_CBLE) if model.positions == "learned" else x_CBLE


def inputs(weights: Weights, layer: int, x_CBLE: Tensor, model: Model) -> tuple[Tensor, Tensor]:
    """What the heads of a layer read: one stream for queries and keys, one for values."""
    normal = normalise(x_CBLE, weights[f"L{layer}.ln1.w"], weights[f"L{layer}.ln1.b"])
    return (normal + _positions(weights, normal) if model.positions == "shortformer" else normal), normal


def heads(head: Weights, address: Tensor, content: Tensor) -> Tensor:
    """Sum of the outputs of H heads, without the layer's output bias, shape (C, B, L, E).

    out = Σ_h softmax(q kᵀ/√K, causal) v W_o with q = address W_q + b_q, k likewise, v = content W_v + b_v. `head`
    holds q k v (H, E, K), o (H, K, E), bq bk bv (H, K), each with or without a leading C.
    """
    query, key = (_project(address, head[name], head[f"b{name}"]) for name in "qk")
    value = _project(content, head["v"], head["bv"])
    chains, rows, count, length, width = query.shape
    mixed = F.scaled_dot_product_attention(query.flatten(0, 1), key.flatten(0, 1), value.flatten(0, 1), is_causal=True)
    joined = mixed.transpose(1, 2).reshape(chains, rows * length, count * width)
    output = head["o"].flatten(-3, -2)
    if output.dim() == 2:
        return (joined.view(-1, count * width) @ output).view(chains, rows, length, -1)
    return torch.bmm(joined, output).view(chains, rows, length, -1)


def patterns(weights: Weights, layer: int, x_CBLE: Tensor, model: Model) -> Tensor:
    """Attention probabilities of the heads of a layer, shape (C, B, H, L, L): query position, then key position."""
    address, _ = inputs(weights, layer, x_CBLE, model)
    query, key = (_project(address, weights[f"L{layer}.{name}"], weights[f"L{layer}.b{name}"]) for name in "qk")
    score = query @ key.transpose(-1, -2) / math.sqrt(model.d_head)
    later = torch.ones(score.shape[-2:], dtype=torch.bool, device=score.device).triu(1)
    return score.masked_fill(later, -math.inf).softmax(-1)


def layer(weights: Weights, index: int, x_CBLE: Tensor, model: Model) -> Tensor:
    """One layer: x + heads(LayerNorm(x)) + output bias."""
    stack = {name: weights[f"L{index}.{name}"] for name in MATRICES}
    bias = _over_rows(weights[f"L{index}.bo"], 1)
    return x_CBLE + heads(stack, *inputs(weights, index, x_CBLE, model)) + bias


def losses(weights: Weights, x_CBLE: Tensor, tokens_CBL: Tensor) -> Tensor:
    """Mean next-token cross-entropy (nats) of each row from the last residual stream, shape (C, B)."""
    chains, rows, length = tokens_CBL.shape
    last = normalise(x_CBLE, weights["final.w"], weights["final.b"])[:, :, :-1]
    target = tokens_CBL[:, :, 1:].reshape(chains, -1)
    token_loss = cross_entropy(
        last.reshape(chains, target.shape[1], -1), weights["unembed"], weights["unembed.b"], target
    )
    return token_loss.view(chains, rows, length - 1).mean(2)


def forward(weights: Weights, tokens_CBL: Tensor, model: Model) -> Tensor:
    """Mean next-token cross-entropy (nats) of each row, shape (C, B)."""
    x_CBLE = embed(weights, tokens_CBL, model)
    for index in range(model.n_layers):
        x_CBLE = layer(weights, index, x_CBLE, model)
    return losses(weights, x_CBLE, tokens_CBL)


def _positions(weights: Weights, x_CBLE: Tensor) -> Tensor:
    return _over_rows(weights["pos"][..., : x_CBLE.shape[2], :], 2)


def _over_rows(array: Tensor, dims: int) -> Tensor:
    """Put axes between the chain axis, where there is one, and the `dims` own axes, so that it broadcasts over rows."""
    if array.dim() == dims:
        return array
    return array.view(array.shape[0], *[1] * (3 - dims), *array.shape[1:])


def _project(x_CBLE: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W_h + b_h for each head, shape (C, B, H, L, K)."""
    chains, rows, length, width = x_CBLE.shape
    count, key = weight.shape[-3], weight.shape[-1]
    joined = weight.transpose(-3, -2).flatten(-2)  # (E, H·K) or (C, E, H·K)
    offset = bias.flatten(-2)
    if joined.dim() == 2 and offset.dim() == 1:
        out = torch.addmm(offset, x_CBLE.reshape(-1, width), joined)
    else:
        joined, offset = joined.expand(chains, width, -1), offset.expand(chains, -1).unsqueeze(1)
        out = torch.baddbmm(offset, x_CBLE.reshape(chains, -1, width), joined)
    return out.view(chains, rows, length, count, key).transpose(2, 3)

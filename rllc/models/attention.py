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
from rllc.models.causal import attend
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


def inputs(weights: Weights, layer: int, x_CBLE: Tensor) -> Tensor:
    """What the heads of a layer read, before positions, shape (C, B, L, E)."""
    return normalise(x_CBLE, weights[f"L{layer}.ln1.w"], weights[f"L{layer}.ln1.b"])


def places(weights: Weights, model: Model, length: int) -> Tensor | None:
    """What is added to the inputs of queries and keys alone: the "shortformer" positions, (L, E) or (C, L, E)."""
    return weights["pos"][..., :length, :] if model.positions == "shortformer" else None


def join(head: Weights) -> Weights:
    """The arrays of H heads as those of one product each way: `into` (3HK, E), `bias` (3HK, 1), `out` (HK, E).

    The rows of `into` are, head by head, those of q, k and v. `head` holds q k v (H, E, K), o (H, K, E), bq bk bv
    (H, K); where one of them has a leading C, all results have.
    """
    chains = [len(array) for name, array in head.items() if array.dim() > (2 if name.startswith("b") else 3)]
    if chains:
        moving = (array.dim() > (2 if name.startswith("b") else 3) for name, array in head.items())
        head = {
            name: array if moves else array.expand(chains[0], *array.shape)
            for (name, array), moves in zip(head.items(), moving, strict=True)
        }
    into = torch.stack([head[name] for name in "qkv"], -3).transpose(-2, -1).flatten(-4, -2)
    bias = torch.stack([head[f"b{name}"] for name in "qkv"], -2).flatten(-3).unsqueeze(-1)
    return {"into": into, "bias": bias, "out": head["o"].flatten(-3, -2)}


def heads(joined: Weights, content_CBLE: Tensor, place: Tensor | None, model: Model) -> Tensor:
    """Sum of the outputs of H heads, without the layer's output bias, shape (C, B, L, E).

    out = Σ_h softmax(q kᵀ/√K, causal) v W_o with q = (content + place) W_q + b_q, k likewise, v = content W_v + b_v.
    """
    mixed_NXL = mix(joined, content_CBLE, place, model)
    out = _over_all(joined["out"], content_CBLE)
    return torch.bmm(mixed_NXL.transpose(1, 2), out).view(content_CBLE.shape)


def mix(joined: Weights, content_CBLE: Tensor, place: Tensor | None, model: Model) -> Tensor:
    """The heads' values mixed by their patterns, before W_o, shape (C·B, H·K, L)."""
    chains, rows, length, _ = content_CBLE.shape
    into, offset = joined["into"], joined["bias"]
    if place is not None:
        placed = into @ place.transpose(-1, -2)
        placed = placed.view(*placed.shape[:-2], -1, 3, model.d_head, length)
        offset = offset + (placed * placed.new_tensor([1.0, 1.0, 0.0]).view(3, 1, 1)).flatten(-4, -2)
    all_NXL = torch.baddbmm(
        _over_all(offset, content_CBLE), _over_all(into, content_CBLE), content_CBLE.flatten(0, 1).transpose(1, 2)
    )
    query, key, value = all_NXL.view(-1, 3, model.d_head, length).unbind(1)
    return attend(query, key, value).view(chains * rows, -1, length)


def patterns(weights: Weights, layer: int, x_CBLE: Tensor, model: Model) -> Tensor:
    """Attention probabilities of the heads of a layer, shape (C, B, H, L, L): query position, then key position."""
    content, place = inputs(weights, layer, x_CBLE), places(weights, model, x_CBLE.shape[2])
    address = content if place is None else content + place
    query, key = (
        torch.einsum("cble,hek->cbhlk", address, weights[f"L{layer}.{name}"]) + weights[f"L{layer}.b{name}"][:, None]
        for name in "qk"
    )
    score = query @ key.transpose(-1, -2) / math.sqrt(model.d_head)
    later = torch.ones(score.shape[-2:], dtype=torch.bool, device=score.device).triu(1)
    return score.masked_fill(later, -math.inf).softmax(-1)


def layer(weights: Weights, index: int, x_CBLE: Tensor, model: Model, *, joined: Weights | None = None) -> Tensor:
    """One layer: x + heads(LayerNorm(x)) + output bias; `joined` are its heads' arrays if joined before."""
    joined = joined or join({name: weights[f"L{index}.{name}"] for name in MATRICES})
    place = places(weights, model, x_CBLE.shape[2])
    bias = _over_rows(weights[f"L{index}.bo"], 1)
    return x_CBLE + heads(joined, inputs(weights, index, x_CBLE), place, model) + bias


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


def _over_all(array: Tensor, x_CBLE: Tensor) -> Tensor:
    """A matrix, or one for each chain, for every row of every chain, shape (C·B, …, …)."""
    chains, rows = x_CBLE.shape[:2]
    if array.dim() == 2:
        return array.expand(chains * rows, *array.shape)
    return array.unsqueeze(1).expand(chains, rows, *array.shape[1:]).flatten(0, 1)

"""The attention heads of one layer.

Where groups of R heads share keys and values, the arrays of keys and values are stacked over the G groups, and heads gR
and on are those of group g; without grouping R is 1.

Shapes: C chains, B rows, L positions, E residual width, H heads, G groups, R heads of a group, K head width.
"""

import math

import torch
from torch import Tensor

from rllc.config import Model
from rllc.models.causal import attend
from rllc.models.chains import Weights, over_all
from rllc.models.layout import MATRICES, OF_HEADS, groups
from rllc.models.norm import normalise
from rllc.models.rotary import turn


def inputs(weights: Weights, layer: int, x_CBLE: Tensor, model: Model) -> Tensor:
    """What the heads of a layer read, before positions, shape (C, B, L, E)."""
    return normalise(weights, f"L{layer}.ln1", x_CBLE, model)


def matrices(weights: Weights, layer: int) -> Weights:
    """The stacked arrays of the heads of a layer, q k v o and the biases that there are."""
    return {kind: weights[name] for kind in MATRICES if (name := f"L{layer}.{kind}") in weights}


def some(weights: Weights, layer: int, heads: slice, model: Model) -> Weights:
    """Those of some of its heads, and of the groups that these belong to."""
    shared = model.n_heads // groups(model)
    own = slice(heads.start // shared, -(-heads.stop // shared))
    return {kind: array[heads if kind in OF_HEADS else own] for kind, array in matrices(weights, layer).items()}


def places(weights: Weights, model: Model, length: int) -> Tensor | None:
    """What is added to the inputs of queries and keys alone: the "shortformer" positions, (L, E) or (C, L, E)."""
    return weights["pos"][..., :length, :] if model.positions == "shortformer" else None


def join(head: Weights) -> Weights:
    """The arrays of heads as those of one product each way: `into` (G(R+2)K, E), `bias` (G(R+2)K, 1), `out` (HK, E).

    The rows of `into` are, group by group, those of the queries of its heads, then of its keys and values. `head` holds
    q (H, E, K), k v (G, E, K), o (H, K, E), and perhaps bq (H, K), bk bv (G, K), without which there is no `bias`;
    where one of them has a leading C, all results have.
    """
    chains = [len(array) for name, array in head.items() if array.dim() > (2 if name.startswith("b") else 3)]
    if chains:
        moving = (array.dim() > (2 if name.startswith("b") else 3) for name, array in head.items())
        head = {
            name: array if moves else array.expand(chains[0], *array.shape)
            for (name, array), moves in zip(head.items(), moving, strict=True)
        }
    grouped = {name: _by_group(array, head["k"].shape[-3], 2 - name.startswith("b")) for name, array in head.items()}
    into = torch.cat([grouped[name] for name in "qkv"], -3).transpose(-2, -1).flatten(-4, -2)
    joined = {"into": into, "out": head["o"].flatten(-3, -2)}
    if "bq" in head:
        joined["bias"] = torch.cat([grouped[f"b{name}"] for name in "qkv"], -2).flatten(-3).unsqueeze(-1)
    return joined


def heads(joined: Weights, content_CBLE: Tensor, place: Tensor | None, model: Model) -> Tensor:
    """Sum of the outputs of the heads, without the layer's output bias, shape (C, B, L, E).

    out = Σ_h softmax(q kᵀ/√K, causal) v W_o with q = (content + place) W_q + b_q, k likewise, v = content W_v + b_v;
    rotary positions turn q and k.
    """
    mixed_NXL = mix(joined, content_CBLE, place, model)
    out = over_all(joined["out"], content_CBLE)
    return torch.bmm(mixed_NXL.transpose(1, 2), out).view(content_CBLE.shape)


def mix(joined: Weights, content_CBLE: Tensor, place: Tensor | None, model: Model) -> Tensor:
    """The heads' values mixed by their patterns, before W_o, shape (C·B, H·K, L)."""
    chains, rows, length, _ = content_CBLE.shape
    shared = 2 * joined["out"].shape[-2] // (joined["into"].shape[-2] - joined["out"].shape[-2])  # R of these heads
    all_NJL = _project(joined["into"], _offset(joined, place, shared, model), content_CBLE)
    each_NJKL = all_NJL.view(-1, shared + 2, model.d_head, length)
    address, value = torch.split(each_NJKL, [shared + 1, 1], 1)
    if model.positions == "rotary":
        address = turn(address, model)
    query, key = torch.split(address, [shared, 1], 1)
    key, value = (array.expand(-1, shared, -1, -1) for array in (key, value))
    return attend(*(array.flatten(0, 1) for array in (query, key, value))).view(chains * rows, -1, length)


def patterns(weights: Weights, layer: int, x_CBLE: Tensor, model: Model) -> Tensor:
    """Attention probabilities of the heads of a layer, shape (C, B, H, L, L): query position, then key position."""
    content, place = inputs(weights, layer, x_CBLE, model), places(weights, model, x_CBLE.shape[2])
    address = content if place is None else content + place
    own = matrices(weights, layer)
    query, key = (torch.einsum("cble,hek->cbhlk", address, own[name]) for name in "qk")
    if "bq" in own:
        query, key = query + own["bq"][:, None], key + own["bk"][:, None]
    if model.positions == "rotary":
        query, key = (turn(array.transpose(-1, -2), model).transpose(-1, -2) for array in (query, key))
    key = key.unsqueeze(3).expand(-1, -1, -1, model.n_heads // groups(model), -1, -1).flatten(2, 3)
    score = query @ key.transpose(-1, -2) / math.sqrt(model.d_head)
    later = torch.ones(score.shape[-2:], dtype=torch.bool, device=score.device).triu(1)
    return score.masked_fill(later, -math.inf).softmax(-1)


def _by_group(array: Tensor, groups: int, own: int) -> Tensor:
    """The axis of heads before the `own` last ones as two, groups and heads of a group."""
    split = array.dim() - own - 1
    return array.reshape(*array.shape[:split], groups, -1, *array.shape[split + 1 :])


def _project(into: Tensor, offset: Tensor | None, content_CBLE: Tensor) -> Tensor:
    """Queries, keys and values before each other, channels before positions."""
    content_NEL = content_CBLE.flatten(0, 1).transpose(1, 2)
    if offset is None:
        return torch.bmm(over_all(into, content_CBLE), content_NEL)
    return torch.baddbmm(over_all(offset, content_CBLE), over_all(into, content_CBLE), content_NEL)


def _offset(joined: Weights, place: Tensor | None, shared: int, model: Model) -> Tensor | None:
    """What queries, keys and values have whatever the content is: their biases, and what `place` gives to the first."""
    offset = joined.get("bias")
    if place is None:
        return offset
    placed = joined["into"] @ place.transpose(-1, -2)
    placed = placed.view(*placed.shape[:-2], -1, shared + 2, model.d_head, place.shape[-2])
    placed = (placed * placed.new_tensor([1.0] * (shared + 1) + [0.0]).view(-1, 1, 1)).flatten(-4, -2)
    return placed if offset is None else offset + placed

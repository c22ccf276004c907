"""The losses of `rllc.models.restriction` as pure functions of one chain, for `rllc.backends.jax`.

Each is loss(form, frozen, live, rows_B): the mean over the rows, which is to be differentiated, and the loss of each
row (B). `frozen` is a dict of what does not move: "weights" stacked as `rllc.models.layout` has them, "tokens" (N, L),
"below", "content" and "above" (N, L, E) and "base" (N, L, V) for all rows of the pool, or None where that is too large
to keep and is computed for each minibatch, and "own" for a head.

Shapes: N rows of the pool, B rows of a minibatch, L positions, E residual width, K head width, V vocabulary, T = B·L.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from rllc.config import Model
from rllc.models import jax_attention as attention
from rllc.models import jax_loss
from rllc.models.jax_attention import Weights
from rllc.models.layout import MATRICES, names

Losses = tuple[Array, Array]
Frozen = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """What a program is compiled for beside the shapes of its arrays.

    Attributes:
        model: of the weights.
        layer: of the head; for other parts the lowest that they touch, −1 where that is the embedding.
        live: what moves: matrices of the head, or flat names.
        chunks: how the pass over the logits is cut and multiplied.
        half: products of activations with weights in bfloat16.
    """

    model: Model
    layer: int
    live: tuple[str, ...]
    chunks: jax_loss.Chunks
    half: bool


def head(form: Form, frozen: Frozen, live: list[Array], rows_B: Array) -> Losses:
    """Loss through a head that has layers above it: the stream there is r* + (o(w) − o(w*))."""
    weights = frozen["weights"]
    content, x_BLE = _around(form, frozen, rows_B)
    mixed_TK, still_TK, out_KE = _values(form, frozen, live, content)
    change_TE = (mixed_TK - still_TK) @ out_KE + still_TK @ (out_KE - frozen["own"]["o"])
    x_BLE = x_BLE + change_TE.reshape(x_BLE.shape)
    for index in range(form.layer + 1, form.model.n_layers):
        x_BLE = attention.layer(weights, index, x_BLE, form.model, half=form.half)
    return _losses(form, weights, x_BLE, _targets(frozen, rows_B))


def last_head(form: Form, frozen: Frozen, live: list[Array], rows_B: Array) -> Losses:
    """Loss through a head of the last layer: the logits change only along what its K channels are written to.

    logits = (r̃ + z Õ − z* Õ*) diag(w) U / σ + b U + b_U with r the last stream at w*, z the head's mixed values, O its
    output matrix, w and b the last LayerNorm, σ its deviation, U and b_U the unembedding, and ˜ for centred over E.
    """
    weights, still_KE = frozen["weights"], attention.centre(frozen["own"]["o"])
    content, above = _around(form, frozen, rows_B)
    mixed_TK, still_TK, out_KE = _values(form, frozen, live, content)
    out_KE = attention.centre(out_KE)
    right_EV = weights["final.w"][:, None] * weights["unembed"]
    way_KV, still_KV = (attention.product(each, right_EV, form.half) for each in (out_KE - still_KE, still_KE))
    x_TE = attention.centre(above).reshape(len(mixed_TK), -1)
    x_TE = x_TE + (mixed_TK - still_TK) @ out_KE + still_TK @ (out_KE - still_KE)
    if frozen["base"] is None:
        logits: tuple[Array | None, Array, Array] = None, x_TE, right_EV
    else:
        left_TR = jnp.concatenate([mixed_TK - still_TK, still_TK], 1)
        right_RV = jnp.concatenate([still_KV + way_KV, way_KV])
        logits = frozen["base"][rows_B].reshape(len(left_TR), -1), left_TR, right_RV
    offset_V = weights["final.b"] @ weights["unembed"] + weights["unembed.b"]
    moving = mixed_TK, way_KV, attention.inverse_spread(x_TE)[:, 0]
    fixed = jax.lax.stop_gradient((*logits, still_KV, offset_V))
    return _by_row(jax_loss.through_head(form.chunks, moving, fixed, _targets(frozen, rows_B)), len(rows_B))


def several(form: Form, frozen: Frozen, live: list[Array], rows_B: Array) -> Losses:
    """Loss through any other part: everything from its lowest layer on, the live arrays in their places."""
    weights = dict(frozen["weights"])
    places = {name: (stack, at) for name, stack, at in names(form.model)}
    for name, array in zip(form.live, live, strict=True):
        stack, at = places[name]
        weights[stack] = array if at is None else weights[stack].at[at].set(array)
    if frozen["below"] is None:
        x_BLE = _stream(form, {**frozen, "weights": weights}, rows_B, 0)
    else:
        x_BLE = frozen["below"][rows_B]
    for index in range(0 if frozen["below"] is None else form.layer, form.model.n_layers):
        x_BLE = attention.layer(weights, index, x_BLE, form.model, half=form.half)
    return _losses(form, weights, x_BLE, _targets(frozen, rows_B))


def _around(form: Form, frozen: Frozen, rows_B: Array) -> tuple[Array, Array]:
    """What the heads of the layer read, and the stream above it, both at w* (B, L, E)."""
    if frozen["content"] is not None:
        return frozen["content"][rows_B], frozen["above"][rows_B]
    below = _stream(form, frozen, rows_B, form.layer)
    above = attention.layer(frozen["weights"], form.layer, below, form.model, half=form.half)
    return attention.inputs(frozen["weights"], form.layer, below), above


def _stream(form: Form, frozen: Frozen, rows_B: Array, layer: int) -> Array:
    """The stream before a layer (B, L, E), from the tokens on."""
    x_BLE = attention.embed(frozen["weights"], frozen["tokens"][rows_B], form.model)
    for index in range(layer):
        x_BLE = attention.layer(frozen["weights"], index, x_BLE, form.model, half=form.half)
    return x_BLE


def _values(form: Form, frozen: Frozen, live: list[Array], content_BLE: Array) -> tuple[Array, Array, Array]:
    """The head's mixed values at w and at w* (T, K) each, and its output matrix at w (K, E).

    What it projects is that at w* plus that of w − w*, so that both values are the same to the last bit at w*.
    """
    own, model, pos = frozen["own"], form.model, frozen["weights"]["pos"]
    now = own | dict(zip(form.live, live, strict=True))

    def project(arrays: Weights) -> Array:
        stack = {name: array[None] for name, array in arrays.items()}
        return attention.project(stack, content_BLE, pos, model, half=form.half)

    still = project(own)
    moved = still + project({name: now[name] - own[name] for name in MATRICES})
    mixed, mixed_still = attention.mix_beside(moved, still, model.d_head)
    return mixed.reshape(-1, model.d_head), mixed_still.reshape(-1, model.d_head), now["o"]


def _losses(form: Form, weights: Weights, x_BLE: Array, tokens: tuple[Array, Array]) -> Losses:
    x_TE = attention.normalise(x_BLE, weights["final.w"], weights["final.b"]).reshape(-1, x_BLE.shape[2])
    loss = jax_loss.moving if {"unembed", "unembed.b"} & set(form.live) else jax_loss.frozen
    return _by_row(loss(form.chunks, x_TE, (weights["unembed"], weights["unembed.b"]), tokens), len(x_BLE))


def _targets(frozen: Frozen, rows_B: Array) -> tuple[Array, Array]:
    """The next token and the weight of each position (T); the last of a row has no next token and weighs nothing."""
    tokens_BL = frozen["tokens"][rows_B]
    rows, length = tokens_BL.shape
    dtype = frozen["weights"]["final.b"].dtype
    weight_L = jnp.where(jnp.arange(length) < length - 1, 1 / (rows * (length - 1)), 0).astype(dtype)
    return jnp.roll(tokens_BL, -1, 1).reshape(-1), jnp.tile(weight_L, rows)


def _by_row(found: Losses, rows: int) -> Losses:
    mean, loss_T = found
    return mean, loss_T.reshape(rows, -1)[:, :-1].mean(1)

"""The attention-only transformer of `rllc.models.attention` in jax.numpy, for one chain; `vmap` gives the chain axis.

Shapes: B rows, L positions, E residual width, H heads, K head width, X = H·K, N sequences of one head each.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from rllc.config import Model
from rllc.models.layout import MATRICES

Weights = dict[str, Array]
Parts = tuple[Array, Array, Array]

EPS = 1e-5
BLOCK = 32  # queries at least; at most four blocks, each against the keys up to its end


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def product(x: Array, weight: Array, half: bool) -> Array:
    """x @ weight, (…, E) by (E, F); with `half` both in bfloat16 and the sums in float32, forwards and backwards."""
    return dot(x, weight, half)


def _product(x: Array, weight: Array, half: bool) -> tuple[Array, tuple[Array, Array]]:
    return dot(x, weight, half), (x, weight)


def _product_back(half: bool, kept: tuple[Array, Array], grad: Array) -> tuple[Array, Array]:
    x, weight = kept
    flat_x, flat_grad = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
    return dot(grad, weight.T, half), dot(flat_x.T, flat_grad, half)


product.defvjp(_product, _product_back)


def dot(x: Array, weight: Array, half: bool) -> Array:
    """As `product`, for what is not differentiated by jax."""
    if not half:
        return x @ weight
    return jnp.matmul(x.astype(jnp.bfloat16), weight.astype(jnp.bfloat16), preferred_element_type=x.dtype)


def normalise(x_BLE: Array, scale_E: Array, shift_E: Array) -> Array:
    """LayerNorm over E with ε = 1e-5."""
    centred = centre(x_BLE)
    return centred * inverse_spread(centred) * scale_E + shift_E


def centre(x: Array) -> Array:
    """Without the mean over the last axis."""
    return x - x.mean(-1, keepdims=True)


def inverse_spread(centred: Array) -> Array:
    """1/√(variance + ε) over the last axis, which stays with length 1."""
    return jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + EPS)


def embed(weights: Weights, tokens_BL: Array, model: Model) -> Array:
    """The residual stream before layer 0, shape (B, L, E)."""
    x_BLE = weights["embed"][tokens_BL]
    return x_BLE + weights["pos"][: x_BLE.shape[1]] if model.positions == "learned" else x_BLE


def inputs(weights: Weights, layer: int, x_BLE: Array) -> Array:
    """What the heads of a layer read, before positions, shape (B, L, E)."""
    return normalise(x_BLE, weights[f"L{layer}.ln1.w"], weights[f"L{layer}.ln1.b"])


def project(head: Weights, content_BLE: Array, pos: Array, model: Model, *, half: bool) -> Array:
    """Queries, keys and values of H heads before each other, (B, L, 3X); linear in the arrays of `head`.

    `head` holds q k v (H, E, K) and bq bk bv (H, K); "shortformer" positions are added for queries and keys.
    """
    into = jnp.concatenate([head[name].transpose(1, 0, 2).reshape(model.d_model, -1) for name in "qkv"], 1)
    offset = jnp.concatenate([head[f"b{name}"].reshape(-1) for name in "qkv"])
    if model.positions == "shortformer":
        paired = into.shape[1] * 2 // 3
        offset += jnp.pad(pos[: content_BLE.shape[1]] @ into[:, :paired], ((0, 0), (0, paired // 2)))
    return product(content_BLE, into, half) + offset


def mix(projected: Array, width: int) -> Array:
    """The heads' values mixed by their causal patterns, before W_o: (B, L, 3X) to (B, L, X)."""
    return _join(attend(*_split(projected, width)))


def mix_beside(projected: Array, still: Array, width: int) -> tuple[Array, Array]:
    """`mix` of both in one batch, so that where they are equal the results are, to the last bit.

    The second is frozen: no gradient passes through it.
    """
    mixed, mixed_still = attend_beside(_split(projected, width), _split(still, width))
    return _join(mixed), _join(mixed_still)


def _split(projected: Array, width: int) -> Parts:
    """Queries (B, H, L, K), keys and values (B, H, K, L)."""
    query, key, value = jnp.moveaxis(projected.reshape(*projected.shape[:2], 3, -1, width), 2, 0)
    return query.transpose(0, 2, 1, 3), key.transpose(0, 2, 3, 1), value.transpose(0, 2, 3, 1)


def _join(mixed_BHLK: Array) -> Array:
    mixed_BLHK = mixed_BHLK.transpose(0, 2, 1, 3)
    return mixed_BLHK.reshape(*mixed_BLHK.shape[:2], -1)


def layer(weights: Weights, index: int, x_BLE: Array, model: Model, *, half: bool) -> Array:
    """One layer: x + heads(LayerNorm(x)) + output bias."""
    stack = {name: weights[f"L{index}.{name}"] for name in MATRICES}
    projected = project(stack, inputs(weights, index, x_BLE), weights["pos"], model, half=half)
    mixed_BLX = mix(projected, model.d_head)
    return x_BLE + product(mixed_BLX, stack["o"].reshape(-1, model.d_model), half) + weights[f"L{index}.bo"]


@jax.custom_vjp
def attend(query: Array, key: Array, value: Array) -> Array:
    """softmax(q k/√K, causal) vᵀ for q (…, L, K) and k, v (…, K, L): the layouts whose products are fast on a CPU."""
    return _attend(query, key, value)[0]


def _attend(query: Array, key: Array, value: Array) -> tuple[Array, Any]:
    mixed, patterns = [], []
    for start, stop in _blocks(query.shape[-2]):
        score = query[..., start:stop, :] @ key[..., :stop] / math.sqrt(query.shape[-1])
        later = jnp.arange(stop) > jnp.arange(start, stop)[:, None]
        score = jnp.where(later, -jnp.inf, score)
        share = jnp.exp(score - score.max(-1, keepdims=True))
        # divided before the product: after it, a fused multiply-add would keep z − z* from being exactly 0 at w*
        patterns.append(share / share.sum(-1, keepdims=True))
        mixed.append(patterns[-1] @ value[..., :stop].swapaxes(-1, -2))
    out = jnp.concatenate(mixed, -2)
    return out, (query, key, value, out, patterns)


def _attend_back(saved: Any, grad: Array) -> Parts:
    query, key, value, out, patterns = saved
    along = (grad * out).sum(-1, keepdims=True)
    grad_query, grad_key, grad_value = [], jnp.zeros_like(key), jnp.zeros_like(value)
    for (start, stop), pattern in zip(_blocks(query.shape[-2]), patterns, strict=True):
        given = grad[..., start:stop, :]
        slope = pattern * (given @ value[..., :stop] - along[..., start:stop, :]) / math.sqrt(query.shape[-1])
        grad_query.append(slope @ key[..., :stop].swapaxes(-1, -2))
        grad_key = grad_key.at[..., :stop].add(query[..., start:stop, :].swapaxes(-1, -2) @ slope)
        grad_value = grad_value.at[..., :stop].add(given.swapaxes(-1, -2) @ pattern)
    return jnp.concatenate(grad_query, -2), grad_key, grad_value


attend.defvjp(_attend, _attend_back)


@jax.custom_vjp
def attend_beside(moving: Parts, still: Parts) -> tuple[Array, Array]:
    """`attend` of two sets of (q, k, v) in one batch; no gradient passes through the second."""
    return _attend_beside(moving, still)[0]


def _attend_beside(moving: Parts, still: Parts) -> tuple[tuple[Array, Array], Any]:
    rows = len(moving[0])
    both, kept = _attend(*jax.tree.map(lambda *pair: jnp.concatenate(pair), moving, still))
    return (both[:rows], both[rows:]), jax.tree.map(lambda array: array[:rows], kept)


def _attend_beside_back(saved: Any, grads: tuple[Array, Array]) -> tuple[Parts, None]:
    return _attend_back(saved, grads[0]), None


attend_beside.defvjp(_attend_beside, _attend_beside_back)


def _blocks(length: int) -> list[tuple[int, int]]:
    size = max(BLOCK, -(-length // 4))
    return [(start, min(start + size, length)) for start in range(0, length, size)]

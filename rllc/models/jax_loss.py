"""Cross-entropy through a frozen unembedding in chunks of tokens, its gradient found in the same pass over the logits.

Each function takes one chain; what it returns first is the weighted sum of the token losses, which is to be
differentiated; the losses of the tokens beside it are for the record, and no gradient passes through them.

Shapes: N tokens, E residual width, K head width, R inner width, V vocabulary.
"""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from rllc.models.jax_attention import dot


@dataclass(frozen=True)
class Chunks:
    """How the pass over the logits is cut: tokens of a chunk, and whether its products are in bfloat16."""

    tokens: int
    half: bool


def divisor(count: int, most: int) -> int:
    """The largest divisor of `count` that is at most `most`, at least 1."""
    return max(size for size in range(1, max(1, min(count, most)) + 1) if count % size == 0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def frozen(chunks: Chunks, x_NE: Array, unembed: tuple[Array, Array], tokens: tuple[Array, Array]) -> Any:
    """Loss of logits x W + b; `unembed` is W (E, V), b (V), `tokens` the targets and weights (N)."""
    return _frozen(chunks, x_NE, unembed, tokens)[0]


def _frozen(chunks: Chunks, x_NE: Array, unembed: Any, tokens: Any) -> tuple[Any, Any]:
    weight_EV, bias_V = unembed
    weight_EV = weight_EV.astype(jnp.bfloat16) if chunks.half else weight_EV

    def step(_: None, cut: tuple[Array, Array, Array]) -> tuple[None, tuple[Array, Array]]:
        x_NE, target_N, share_N = cut
        loss_N, slope_NV, total_N = _slope(dot(x_NE, weight_EV, chunks.half) + bias_V, target_N)
        back_NE = dot(slope_NV, weight_EV.T, chunks.half) / total_N[:, None] - weight_EV.T[target_N]
        return None, (loss_N, back_NE * share_N[:, None])

    _, (loss, grad) = jax.lax.scan(step, None, _cut(chunks, x_NE, *tokens))
    loss_N = loss.reshape(-1)
    return (loss_N @ tokens[1], loss_N), grad.reshape(x_NE.shape)


def _frozen_back(chunks: Chunks, grad_NE: Array, cotangent: Any) -> tuple[Any, ...]:
    del chunks
    return cotangent[0] * grad_NE, None, None


frozen.defvjp(_frozen, _frozen_back)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def through_head(chunks: Chunks, moving: Any, fixed: Any, tokens: tuple[Array, Array]) -> Any:
    """Loss of logits (y / σ) + c where y changes with the values z (N, K) of one head and their way D (K, V) alone.

    y = base + left · right, as it may be got; its gradient is taken as that of y = z (A* + D) + …, of rank K.

    Args:
        chunks: how the pass is cut.
        moving: z (N, K), D (K, V) and 1/σ (N).
        fixed: base (N, V) or None, left (N, R), right (R, V), A* (K, V), c (V).
        tokens: targets and weights (N).
    """
    return _through_head(chunks, moving, fixed, tokens)[0]


def _through_head(chunks: Chunks, moving: Any, fixed: Any, tokens: Any) -> tuple[Any, Any]:
    z_NK, way_KV, scale_N = moving
    base_NV, left_NR, right_RV, still_KV, offset_V = fixed
    whole_KV = still_KV + way_KV

    def step(way_grad_KV: Array, cut: Any) -> tuple[Array, Any]:
        base_NV, left_NR, z_NK, scale_N, target_N, share_N = cut
        y_NV = dot(left_NR, right_RV, chunks.half)
        y_NV = y_NV if base_NV is None else y_NV + base_NV
        loss_N, slope_NV, total_N = _slope(y_NV * scale_N[:, None] + offset_V, target_N)
        share_N1 = share_N[:, None]
        hot_NV = jnp.arange(slope_NV.shape[1]) == target_N[:, None]
        slope_NV = slope_NV * (share_N1 / total_N[:, None]) - jnp.where(hot_NV, share_N1, 0)
        scale_grad_N = (slope_NV * y_NV).sum(1)
        z_grad_NK = dot(slope_NV, whole_KV.T, chunks.half) * scale_N[:, None]
        way_grad_KV = way_grad_KV + dot((z_NK * scale_N[:, None]).T, slope_NV, chunks.half)
        return way_grad_KV, (loss_N, z_grad_NK, scale_grad_N)

    way_grad_KV, (loss, z_grad, scale_grad) = jax.lax.scan(
        step, jnp.zeros_like(way_KV), _cut(chunks, base_NV, left_NR, z_NK, scale_N, *tokens)
    )
    loss_N = loss.reshape(-1)
    return (loss_N @ tokens[1], loss_N), (z_grad.reshape(z_NK.shape), way_grad_KV, scale_grad.reshape(-1))


def _through_head_back(chunks: Chunks, grads: Any, cotangent: Any) -> tuple[Any, ...]:
    del chunks
    return jax.tree.map(lambda grad: cotangent[0] * grad, grads), None, None


through_head.defvjp(_through_head, _through_head_back)


def moving(chunks: Chunks, x_NE: Array, unembed: tuple[Array, Array], tokens: tuple[Array, Array]) -> Any:
    """As `frozen`, differentiable in the unembedding too: the logits of a chunk are computed again on the way back."""
    weight_EV, bias_V = unembed

    @jax.checkpoint
    def step(cut: tuple[Array, Array]) -> Array:
        logits = dot(cut[0], weight_EV, chunks.half) + bias_V
        return jax.nn.logsumexp(logits, 1) - jnp.take_along_axis(logits, cut[1][:, None], 1)[:, 0]

    loss_N = jax.lax.map(step, _cut(chunks, x_NE, tokens[0])).reshape(-1)
    return loss_N @ tokens[1], jax.lax.stop_gradient(loss_N)


def _slope(logits_NV: Array, target_N: Array) -> tuple[Array, Array, Array]:
    """Losses, e^(logits − max), and the sums of the latter."""
    logits_NV = logits_NV - logits_NV.max(1, keepdims=True)
    share_NV = jnp.exp(logits_NV)
    total_N = share_NV.sum(1)
    return jnp.log(total_N) - jnp.take_along_axis(logits_NV, target_N[:, None], 1)[:, 0], share_NV, total_N


def _cut(chunks: Chunks, *arrays: Any) -> Any:
    """Each array as (count of chunks, tokens of a chunk, …); None stays."""
    return jax.tree.map(lambda array: array.reshape(-1, chunks.tokens, *array.shape[1:]), arrays)

"""A part of the weights as a potential of `rllc.backends.jax`: the arrays of a `Pool` for `rllc.models.jax_potential`.

Shapes: N rows of the pool, L positions, E residual width, V vocabulary.
"""

import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from jax import Array

from rllc.backends.jax import Potential
from rllc.models import jax_attention as attention
from rllc.models import jax_potential as potential
from rllc.models import sharing
from rllc.models.jax_loss import Chunks, divisor
from rllc.models.jax_potential import Form, Frozen
from rllc.models.layout import MATRICES, names
from rllc.models.parts import HEAD, of
from rllc.models.pool import Pool
from rllc.models.restriction import _at, _depth

CHUNK_BYTES = 8 * 2**20  # of one chunk of logits, of all chains together

_kept: "weakref.WeakKeyDictionary[Pool, dict[str, Any]]" = weakref.WeakKeyDictionary()


def restrict(pool: Pool, part: str, products: str) -> Potential:
    """The loss as a function of `part` (a glob over the flat parameter names).

    `products` is that of `rllc.task.Sampler`. What heads of a layer share is kept as long as the pool and the layer are
    the same.

    Raises:
        Mistake: the part matches nothing.
    """
    live = of(pool.model, part)
    owners = {name.partition(".")[0] for name in live}
    match = HEAD.fullmatch(owners.pop()) if len(owners) == 1 else None
    with jax.enable_x64(pool.weights["embed"].dtype == torch.float64):
        if match is None:
            return _several(pool, live, products)
        return _head(pool, int(match[1]), int(match[2]), live, products)


def _head(pool: Pool, layer: int, head: int, live: list[str], products: str) -> Potential:
    kinds = [name.partition(".")[2] for name in live]
    own = {name: _array(pool.weights[f"L{layer}.{name}"][head]) for name in MATRICES}
    last = layer == pool.model.n_layers - 1
    return Potential(
        start=[own[name] for name in kinds],
        form=_form(pool, layer, kinds, products),
        frozen={**_of_layer(pool, layer, lambda: _tables(pool, layer)), "own": own},
        loss=potential.last_head if last else potential.head,
        rows=len(pool.tokens_NL),
        reference=_once(pool, f"reference {layer}", dict),
    )


def _several(pool: Pool, live: list[str], products: str) -> Potential:
    places = {name: (stack, at) for name, stack, at in names(pool.model)}
    lowest = min(_depth(places[name][0], pool.model) for name in live)
    return Potential(
        start=[_array(_at(pool.weights, places[name])) for name in live],
        form=_form(pool, lowest, live, products),
        frozen={**_common(pool), "below": None if lowest < 0 else _stream(pool, lowest)},
        loss=potential.several,
        rows=len(pool.tokens_NL),
    )


def _form(pool: Pool, layer: int, live: list[str], products: str) -> Form:
    size = pool.weights["embed"].itemsize * pool.model.d_vocab * pool.chains
    tokens = divisor(pool.batch * pool.tokens_NL.shape[1], CHUNK_BYTES // size)
    return Form(pool.model, layer, tuple(live), Chunks(tokens, products != "exact"), products == "bf16")


def _tables(pool: Pool, layer: int) -> Frozen:
    tables: Frozen = {**_common(pool), "content": None, "above": None, "base": None}
    below, above = _stream(pool, layer), _stream(pool, layer + 1)
    if below is None or above is None:
        return tables
    weights = tables["weights"]
    tables |= {"content": attention.inputs(weights, layer, below), "above": above}
    if layer == pool.model.n_layers - 1 and above[:, :, 0].nbytes * pool.model.d_vocab <= sharing.CACHE_BYTES:
        tables["base"] = attention.centre(above) @ (weights["final.w"][:, None] * weights["unembed"])
    return tables


def _common(pool: Pool) -> Frozen:
    def compute() -> Frozen:
        weights = {name: _array(array) for name, array in pool.weights.items()}
        return {"weights": weights, "tokens": _array(pool.tokens_NL.to(torch.int32))}

    return dict(_once(pool, "common", compute))


def _stream(pool: Pool, layer: int) -> Array | None:
    """The stream before a layer at w* on all rows of the pool (N, L, E); None where that is too large to keep."""
    rows, length = pool.tokens_NL.shape
    if rows * length * pool.model.d_model * pool.weights["embed"].itemsize > sharing.CACHE_BYTES:
        return None
    return _array(pool.stream(layer, torch.arange(rows)[None])[0])


def _of_layer(pool: Pool, layer: int, compute: Callable[[], Frozen]) -> Frozen:
    """What `compute` gives, kept until another layer comes."""
    if _once(pool, "layer", lambda: layer) != layer:
        del _kept[pool]["layer"], _kept[pool]["tables"]
        _kept[pool]["layer"] = layer
    return dict(_once(pool, "tables", compute))


def _once(pool: Pool, name: str, compute: Callable[[], Any]) -> Any:
    kept = _kept.setdefault(pool, {})
    if name not in kept:
        kept[name] = compute()
    return kept[name]


def _array(tensor: torch.Tensor) -> Array:
    return jnp.asarray(tensor.cpu().numpy())

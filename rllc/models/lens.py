"""TransformerLens key layout: renamed on loading and saving, value by value the same.

The layout's own buffers (causal masks, IGNORE) are dropped, for they are no parameters.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from rllc.config import Model
from rllc.mistake import Mistake
from rllc.models.layout import shapes

if TYPE_CHECKING:
    from rllc.models.attention import Weights


Array = TypeVar("Array", bound="Shaped")


class Shaped(Protocol):
    """An array, or what is known of one before it is read."""

    @property
    def shape(self) -> Sequence[int]:
        """Its axes."""


_OUTER = {
    "embed": "embed.W_E", "pos": "pos_embed.W_pos", "unembed": "unembed.W_U", "unembed.b": "unembed.b_U",
    "final.w": "ln_final.w", "final.b": "ln_final.b",
}  # fmt: skip
_BUFFER = re.compile(r"(^|\.)(mask|IGNORE)$")


def key(name: str) -> str:
    """The TransformerLens key of a stacked array: "L0.q" → "blocks.0.attn.W_Q"."""
    if name in _OUTER:
        return _OUTER[name]
    layer, _, kind = name.partition(".")
    block = f"blocks.{layer[1:]}"
    if kind.startswith("ln1"):
        return f"{block}.{kind}"
    return f"{block}.attn.{'b' if kind.startswith('b') else 'W'}_{kind[-1].upper()}"


def save(weights: "Weights") -> "Weights":
    """Rename to TransformerLens keys."""
    return {key(name): array for name, array in weights.items()}


def load(state: Mapping[str, Array], model: Model, origin: str) -> dict[str, Array]:
    """Rename from TransformerLens keys.

    Raises:
        Mistake: a key is missing, unknown or of another shape than `model` says; `origin` names the file.
    """
    expected = {key(name): (name, shape) for name, shape in shapes(model).items()}
    weights: dict[str, Array] = {}
    for found, array in state.items():
        if _BUFFER.search(found):
            continue
        if found not in expected:
            raise Mistake(f"{origin}: holds {found!r}, which this model ({_describe(model)}) does not have.")
        name, shape = expected[found]
        if tuple(array.shape) != shape:
            raise Mistake(
                f"{origin}: {found} has shape {tuple(array.shape)}; this model ({_describe(model)}) has {shape}."
            )
        weights[name] = array
    if missing := sorted(set(expected) - set(state)):
        raise Mistake(f"{origin}: {', '.join(missing[:5])} missing ({len(missing)} in all) for {_describe(model)}.")
    return {name: weights[name] for name in shapes(model)}


def _describe(model: Model) -> str:
    return (
        f"attention-only, n_layers {model.n_layers}, n_heads {model.n_heads}, d_model {model.d_model}, "
        f"d_head {model.d_head}, n_ctx {model.n_ctx}, d_vocab {model.d_vocab}, positions {model.positions}"
    )

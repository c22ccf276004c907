"""The shape of a transformer."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Model:
    """Shape of a pre-norm decoder; with the defaults the attention-only transformer.

    Attributes:
        positions: "shortformer" are added to what queries and keys read, "learned" to the embedding; "rotary" turn
            queries and keys.
        n_kv: groups of heads that share keys and values; null for each head its own.
        d_rotary: leading channels of each head that "rotary" positions turn, the second half paired with the first.
        rotary_base: wavelength of the slowest pair, over 2π.
        norm: LayerNorm, or RMSNorm without a shift; `eps` is added to its variance or mean square.
        d_mlp: inner width of the MLPs; 0 for none.
        gated: act(y W_gate) · (y W_in) in place of act(y W_in).
        parallel: x + heads(norm x) + mlp(norm x) in place of one after the other.
        tied: the embedding is the unembedding too.
        bias_qkv: whether there are such biases, as bias_o, bias_mlp and bias_unembed.
    """

    n_layers: int
    n_heads: int
    d_model: int
    d_head: int
    n_ctx: int
    d_vocab: int
    positions: Literal["shortformer", "learned", "rotary"]
    n_kv: int | None = None
    d_rotary: int = 0
    rotary_base: float = 10000.0
    norm: Literal["layer", "rms"] = "layer"
    eps: float = 1e-5
    d_mlp: int = 0
    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "gelu"
    gated: bool = False
    parallel: bool = False
    tied: bool = False
    bias_qkv: bool = True
    bias_o: bool = True
    bias_mlp: bool = True
    bias_unembed: bool = True


def plain(model: Model) -> dict[str, Any]:
    """The fields of a model as JSON has them, those at their defaults left out: old files keep their bytes."""
    fields = {field.name: (getattr(model, field.name), field.default) for field in dataclasses.fields(model)}
    return {name: value for name, (value, default) in fields.items() if value != default}

"""TransformerLens key layout, that of rllc's own checkpoints: renamed on loading and saving, value by value the same.

The layout's own buffers (causal masks, IGNORE) are dropped, for they are no parameters.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rllc.config import Model
from rllc.models import keys

if TYPE_CHECKING:
    from torch import Tensor

    from rllc.models.chains import Weights

_OWN = "blocks.*"
_TABLE = (
    ("embed.W_E", "v e", "embed"),
    ("pos_embed.W_pos", "l e", "pos"),
    (f"{_OWN}.ln1.w", "e", "L*.ln1.w"),
    (f"{_OWN}.ln1.b", "e", "L*.ln1.b"),
    (f"{_OWN}.attn.W_Q", "h e k", "L*.q"),
    (f"{_OWN}.attn.W_K", "g e k", "L*.k"),
    (f"{_OWN}.attn.W_V", "g e k", "L*.v"),
    (f"{_OWN}.attn.W_O", "h k e", "L*.o"),
    (f"{_OWN}.attn.b_Q", "h k", "L*.bq"),
    (f"{_OWN}.attn.b_K", "g k", "L*.bk"),
    (f"{_OWN}.attn.b_V", "g k", "L*.bv"),
    (f"{_OWN}.attn.b_O", "e", "L*.bo"),
    (f"{_OWN}.ln2.w", "e", "L*.ln2.w"),
    (f"{_OWN}.ln2.b", "e", "L*.ln2.b"),
    (f"{_OWN}.mlp.W_in", "e m", "L*.mlp.in"),
    (f"{_OWN}.mlp.W_gate", "e m", "L*.mlp.gate"),
    (f"{_OWN}.mlp.b_in", "m", "L*.mlp.bin"),
    (f"{_OWN}.mlp.b_gate", "m", "L*.mlp.bgate"),
    (f"{_OWN}.mlp.W_out", "m e", "L*.mlp.out"),
    (f"{_OWN}.mlp.b_out", "e", "L*.mlp.bout"),
    ("ln_final.w", "e", "final.w"),
    ("ln_final.b", "e", "final.b"),
    ("unembed.W_U", "e v", "unembed"),
    ("unembed.b_U", "v", "unembed.b"),
)
_BUFFER = re.compile(r"(^|\.)(mask|IGNORE)$")
_LAYOUT = keys.Layout(_TABLE, lambda key: None if _BUFFER.search(key) else key)


def save(weights: "Weights", model: Model) -> "dict[str, Tensor]":
    """Rename to TransformerLens keys."""
    return keys.save(weights, _LAYOUT, model)


def check(state: Mapping[str, keys.Shaped], model: Model, origin: str) -> None:
    """See that names and shapes are those of `model`.

    Raises:
        Mistake: a key is missing, unknown or of another shape; `origin` names the file.
    """
    keys.check(state, _LAYOUT, model, origin)


def load(state: "Mapping[str, Tensor]", model: Model, origin: str) -> "Weights":
    """Rename from TransformerLens keys.

    Raises:
        Mistake: see `check`.
    """
    return keys.load(state, _LAYOUT, model, origin)

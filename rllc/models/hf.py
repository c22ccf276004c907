"""The key layouts of transformers: GPT-NeoX, GPT-2, and Llama with its relatives.

GPT-NeoX keeps query, key and value rows head by head in one matrix, GPT-2 all queries, then all keys, then all values;
both are taken apart into heads on loading and put together again bit for bit. Which layout is meant is told by the
model alone: GPT-2 has learned positions, the others rotary ones, and Llama an RMSNorm.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rllc.config import Model
from rllc.mistake import Mistake
from rllc.models import keys
from rllc.models.hf_config import describe

if TYPE_CHECKING:
    from torch import Tensor

    from rllc.models.chains import Weights

__all__ = ["check", "describe", "load", "save"]

_NEOX = (
    ("gpt_neox.embed_in.weight", "v e", "embed"),
    ("gpt_neox.layers.*.input_layernorm.weight", "e", "L*.ln1.w"),
    ("gpt_neox.layers.*.input_layernorm.bias", "e", "L*.ln1.b"),
    ("gpt_neox.layers.*.post_attention_layernorm.weight", "e", "L*.ln2.w"),
    ("gpt_neox.layers.*.post_attention_layernorm.bias", "e", "L*.ln2.b"),
    ("gpt_neox.layers.*.attention.query_key_value.weight", "h3k e", "L*.q L*.k L*.v"),
    ("gpt_neox.layers.*.attention.query_key_value.bias", "h3k", "L*.bq L*.bk L*.bv"),
    ("gpt_neox.layers.*.attention.dense.weight", "e hk", "L*.o"),
    ("gpt_neox.layers.*.attention.dense.bias", "e", "L*.bo"),
    ("gpt_neox.layers.*.mlp.dense_h_to_4h.weight", "m e", "L*.mlp.in"),
    ("gpt_neox.layers.*.mlp.dense_h_to_4h.bias", "m", "L*.mlp.bin"),
    ("gpt_neox.layers.*.mlp.dense_4h_to_h.weight", "e m", "L*.mlp.out"),
    ("gpt_neox.layers.*.mlp.dense_4h_to_h.bias", "e", "L*.mlp.bout"),
    ("gpt_neox.final_layer_norm.weight", "e", "final.w"),
    ("gpt_neox.final_layer_norm.bias", "e", "final.b"),
    ("embed_out.weight", "v e", "unembed"),
)
_GPT2 = (
    ("transformer.wte.weight", "v e", "embed"),
    ("transformer.wpe.weight", "l e", "pos"),
    ("transformer.h.*.ln_1.weight", "e", "L*.ln1.w"),
    ("transformer.h.*.ln_1.bias", "e", "L*.ln1.b"),
    ("transformer.h.*.attn.c_attn.weight", "e 3hk", "L*.q L*.k L*.v"),
    ("transformer.h.*.attn.c_attn.bias", "3hk", "L*.bq L*.bk L*.bv"),
    ("transformer.h.*.attn.c_proj.weight", "hk e", "L*.o"),
    ("transformer.h.*.attn.c_proj.bias", "e", "L*.bo"),
    ("transformer.h.*.ln_2.weight", "e", "L*.ln2.w"),
    ("transformer.h.*.ln_2.bias", "e", "L*.ln2.b"),
    ("transformer.h.*.mlp.c_fc.weight", "e m", "L*.mlp.in"),
    ("transformer.h.*.mlp.c_fc.bias", "m", "L*.mlp.bin"),
    ("transformer.h.*.mlp.c_proj.weight", "m e", "L*.mlp.out"),
    ("transformer.h.*.mlp.c_proj.bias", "e", "L*.mlp.bout"),
    ("transformer.ln_f.weight", "e", "final.w"),
    ("transformer.ln_f.bias", "e", "final.b"),
    ("lm_head.weight", "v e", "unembed"),
)
_LLAMA = (
    ("model.embed_tokens.weight", "v e", "embed"),
    ("model.layers.*.input_layernorm.weight", "e", "L*.ln1.w"),
    ("model.layers.*.self_attn.q_proj.weight", "hk e", "L*.q"),
    ("model.layers.*.self_attn.k_proj.weight", "gk e", "L*.k"),
    ("model.layers.*.self_attn.v_proj.weight", "gk e", "L*.v"),
    ("model.layers.*.self_attn.q_proj.bias", "hk", "L*.bq"),
    ("model.layers.*.self_attn.k_proj.bias", "gk", "L*.bk"),
    ("model.layers.*.self_attn.v_proj.bias", "gk", "L*.bv"),
    ("model.layers.*.self_attn.o_proj.weight", "e hk", "L*.o"),
    ("model.layers.*.self_attn.o_proj.bias", "e", "L*.bo"),
    ("model.layers.*.post_attention_layernorm.weight", "e", "L*.ln2.w"),
    ("model.layers.*.mlp.gate_proj.weight", "m e", "L*.mlp.gate"),
    ("model.layers.*.mlp.up_proj.weight", "m e", "L*.mlp.in"),
    ("model.layers.*.mlp.down_proj.weight", "e m", "L*.mlp.out"),
    ("model.layers.*.mlp.gate_proj.bias", "m", "L*.mlp.bgate"),
    ("model.layers.*.mlp.up_proj.bias", "m", "L*.mlp.bin"),
    ("model.layers.*.mlp.down_proj.bias", "e", "L*.mlp.bout"),
    ("model.norm.weight", "e", "final.w"),
    ("lm_head.weight", "v e", "unembed"),
)
_HEADS = ("lm_head.weight", "embed_out.weight")  # the embedding once more where it is tied
_BUFFERS = (".attn.bias", ".attention.bias", ".masked_bias", ".rotary_emb.inv_freq")  # ends of keys in older files
_BARE = re.compile(r"(wte|wpe|ln_f|h\.\d+)\.")  # GPT-2 saved without its unembedding


def check(state: Mapping[str, keys.Shaped], model: Model, origin: str) -> None:
    """See that names and shapes are those of `model`; nothing but the shape of a value is asked for.

    Raises:
        Mistake: a key is unknown, missing or of another shape; `origin` names the file.
    """
    keys.check(state, _layout(model), model, origin)


def load(state: "Mapping[str, Tensor]", model: Model, origin: str) -> "Weights":
    """Our arrays as views of theirs; each value is read once.

    Raises:
        Mistake: see `check`; or the model is tied, and the unembedding is not the embedding.
    """
    weights = keys.load(state, _layout(model), model, origin)
    for key in _HEADS:
        if model.tied and key in state and not bool((state[key] == weights["embed"]).all()):
            raise Mistake(
                f"{origin}: {key} is not the embedding, to which this model ({keys.describe(model)}) ties it."
            )
    return weights


def save(weights: "Weights", model: Model) -> "dict[str, Tensor]":
    """Their arrays, fused again; a tied unembedding is left out, as in their own files."""
    return keys.save(weights, _layout(model), model)


def _layout(model: Model) -> keys.Layout:
    def known(key: str) -> str | None:
        if key.endswith(_BUFFERS) or (model.tied and key in _HEADS):
            return None
        if table is _NEOX and key == "lm_head.weight":
            return "embed_out.weight"  # as transformers 5 calls it in memory
        return f"transformer.{key}" if table is _GPT2 and _BARE.match(key) else key

    table = _GPT2 if model.positions == "learned" else _NEOX if model.norm == "layer" else _LLAMA
    return keys.Layout(table, known)

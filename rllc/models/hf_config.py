"""What a config.json of transformers says of a model, in the old spelling and in that of transformers 5."""

from collections.abc import Mapping
from typing import Any

from rllc import legal, schema
from rllc.config import Model
from rllc.mistake import Mistake, unknown

Values = Mapping[str, Any]

# transformers leaves out of config.json what is at its default
_LLAMA = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": None, "hidden_act": "silu", "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
    "sliding_window": None,
}  # fmt: skip
_DEFAULTS: dict[str, dict[str, Any]] = {
    "gpt_neox": {
        "vocab_size": 50432, "hidden_size": 6144, "intermediate_size": 24576, "num_hidden_layers": 44,
        "num_attention_heads": 64, "hidden_act": "gelu", "max_position_embeddings": 2048, "layer_norm_eps": 1e-5,
        "tie_word_embeddings": False, "attention_bias": True, "use_parallel_residual": True, "rotary_pct": 0.25,
    },
    "gpt2": {
        "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12, "n_inner": None,
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True,
    },
    "llama": _LLAMA,
    "mistral": _LLAMA | {
        "intermediate_size": 14336, "num_key_value_heads": 8, "max_position_embeddings": 131072, "sliding_window": 4096,
    },
    "qwen2": _LLAMA | {
        "vocab_size": 151936, "intermediate_size": 22016, "max_position_embeddings": 32768, "sliding_window": 4096,
        "use_sliding_window": False,
    },
}  # fmt: skip
KINDS = tuple(_DEFAULTS)
_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu",
                "silu": "silu", "swish": "silu"}  # fmt: skip
_GPT2_ONLY = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False}


def describe(config: Values, origin: str) -> Model:
    """The model that a config.json describes; `origin` names the file.

    Raises:
        Mistake: its kind is none of KINDS, it asks for what is not computed here, or a value cannot be.
    """
    kind = config.get("model_type")
    if kind not in KINDS:
        raise Mistake(f"{origin}: model kind {kind} found, expected {', '.join(KINDS)}.")
    values = _DEFAULTS[kind] | dict(config)
    read = {"gpt_neox": _neox, "gpt2": _gpt2}.get(kind, _llama)
    try:
        fields = read(values, origin)
    except (TypeError, ZeroDivisionError):
        raise Mistake(f"{origin}: a size in it is not a whole number above 0.") from None
    model: Model = schema.build(Model, fields, origin)
    legal.check_model(model, origin)
    return model


def _neox(values: Values, origin: str) -> dict[str, Any]:
    heads, bias = values["num_attention_heads"], values["attention_bias"]
    d_head = values["hidden_size"] // heads
    return _sizes(values) | _rotary(values, d_head, origin) | {
        "n_heads": heads, "d_head": d_head, "n_ctx": values["max_position_embeddings"], "eps": values["layer_norm_eps"],
        "activation": _activation("hidden_act", values, origin), "parallel": values["use_parallel_residual"],
        "bias_qkv": bias, "bias_o": bias,
    }  # fmt: skip


def _gpt2(values: Values, origin: str) -> dict[str, Any]:
    for name, needed in _GPT2_ONLY.items():
        if values.get(name, needed) != needed:
            raise Mistake(f"{origin}: {name} {values[name]} is not computed here; legal: {needed}.")
    width = values["n_embd"]
    return {
        "n_layers": values["n_layer"], "n_heads": values["n_head"], "d_model": width,
        "d_head": width // values["n_head"], "n_ctx": values["n_positions"], "d_vocab": values["vocab_size"],
        "positions": "learned", "eps": values["layer_norm_epsilon"], "d_mlp": values["n_inner"] or 4 * width,
        "activation": _activation("activation_function", values, origin), "tied": values["tie_word_embeddings"],
        "bias_unembed": False,
    }  # fmt: skip


def _llama(values: Values, origin: str) -> dict[str, Any]:
    heads, longest = values["num_attention_heads"], values["max_position_embeddings"]
    d_head, groups = values.get("head_dim") or values["hidden_size"] // heads, values["num_key_value_heads"] or heads
    window = values["sliding_window"] if values.get("use_sliding_window", True) else None
    qwen = values["model_type"] == "qwen2"
    return _sizes(values) | _rotary(values, d_head, origin) | {
        "n_heads": heads, "d_head": d_head, "n_kv": None if groups == heads else groups,
        "n_ctx": min(longest, window or longest),  # up to the window's length attention sees everything
        "norm": "rms", "eps": values["rms_norm_eps"], "gated": True,
        "activation": _activation("hidden_act", values, origin), "bias_qkv": qwen or values["attention_bias"],
        "bias_o": values["attention_bias"] and not qwen, "bias_mlp": values["mlp_bias"],
    }  # fmt: skip


def _sizes(values: Values) -> dict[str, Any]:
    return {
        "n_layers": values["num_hidden_layers"], "d_model": values["hidden_size"], "d_vocab": values["vocab_size"],
        "d_mlp": values["intermediate_size"], "tied": values["tie_word_embeddings"], "bias_unembed": False,
    }  # fmt: skip


def _rotary(values: Values, d_head: int, origin: str) -> dict[str, Any]:
    rope: Values = values.get("rope_parameters") or values.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise Mistake(f"{origin}: rotary positions of type {kind} are not computed here; legal: default.")
    share: Any = rope.get("partial_rotary_factor", values.get("rotary_pct", values.get("partial_rotary_factor", 1.0)))
    base = rope.get("rope_theta", values.get("rope_theta", values.get("rotary_emb_base", 10000)))
    return {"positions": "rotary", "d_rotary": int(d_head * share), "rotary_base": base}


def _activation(key: str, values: Values, origin: str) -> str:
    if values[key] not in _ACTIVATIONS:
        raise unknown(f"{origin}: {key}", values[key], _ACTIVATIONS)
    return _ACTIVATIONS[values[key]]

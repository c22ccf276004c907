"""Tiny models of the transformers library, random or trained for a moment, and the vocabulary they share."""

import functools
from typing import Any

import torch

VOCAB, LENGTH = 101, 24
SIZES = {
    "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 80, "vocab_size": VOCAB,
    "max_position_embeddings": LENGTH, "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
GPT2 = {
    "n_embd": 32, "n_layer": 3, "n_head": 4, "vocab_size": VOCAB, "n_positions": LENGTH, "bos_token_id": 0,
    "eos_token_id": 0,
}  # fmt: skip
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt_neox": ("GPTNeoX", SIZES),
    "gpt_neox sequential": (
        "GPTNeoX", SIZES | {"use_parallel_residual": False, "rotary_pct": 1.0, "layer_norm_eps": 1e-6},
    ),
    "gpt_neox bare": ("GPTNeoX", SIZES | {"attention_bias": False, "tie_word_embeddings": True, "hidden_act": "relu"}),
    "gpt2": ("GPT2", GPT2),
    "gpt2 untied": ("GPT2", GPT2 | {"tie_word_embeddings": False, "n_inner": 48, "activation_function": "gelu"}),
    "llama": ("Llama", SIZES),
    "llama grouped": ("Llama", SIZES | {"num_key_value_heads": 2, "rms_norm_eps": 1e-5}),
    "llama biased": (
        "Llama", SIZES | {"attention_bias": True, "mlp_bias": True, "head_dim": 12, "rope_theta": 5e5,
                          "tie_word_embeddings": True},
    ),
    "mistral": ("Mistral", SIZES | {"num_key_value_heads": 1}),
    "qwen2": ("Qwen2", SIZES | {"num_key_value_heads": 2, "tie_word_embeddings": True}),
}  # fmt: skip


@functools.cache
def net(case: str, *, trained: bool = False) -> Any:
    """The model in float32 and eval mode, no weight of which is at a special value; not to be changed."""
    import transformers

    kind, options = CASES[case]
    config = getattr(transformers, f"{kind}Config")(**options)
    made = getattr(transformers, "GPT2LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM")(config).eval()
    generator = torch.Generator().manual_seed(0)
    for array in made.parameters():
        matrix = array.dim() > 1
        with torch.no_grad():
            array.normal_(0.0 if matrix else 0.5, 0.25 if matrix else 0.5, generator=generator)
    if trained:
        optimizer = torch.optim.AdamW(made.parameters(), lr=3e-3)
        for _ in range(10):
            tokens = tokens_of(4, generator)
            optimizer.zero_grad()
            made(tokens, labels=tokens).loss.backward()
            optimizer.step()
    return made


def tokens_of(rows: int, generator: torch.Generator | None = None) -> torch.Tensor:
    """Rows of random tokens."""
    return torch.randint(VOCAB, (rows, LENGTH), generator=generator or torch.Generator().manual_seed(1))


def on_disk(net: Any) -> dict[str, torch.Tensor]:
    """The state dict as the library's files have it."""
    neox = net.config.model_type == "gpt_neox"
    return {"embed_out.weight" if neox and k == "lm_head.weight" else k: v for k, v in net.state_dict().items()}

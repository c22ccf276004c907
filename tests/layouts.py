"""Checkpoints in the layouts that are found on the hub."""

import io
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save

from rllc.config import Model

sys.path.append(str(Path(__file__).parent / "fixtures" / "tiny_attn"))
import tiny_attn

SHAPE = Model(n_layers=2, n_heads=8, d_model=64, d_head=8, n_ctx=64, d_vocab=512, positions="shortformer")
TOKENIZER = (tiny_attn.FOLDER / "tokenizer.json").read_bytes()


def packed(state: dict[str, torch.Tensor], *, old: bool = False) -> bytes:
    """What torch.save writes, or wrote before its zip format."""
    file = io.BytesIO()
    torch.save(state, file, _use_new_zipfile_serialization=not old)
    return file.getvalue()


def lens_state(step: int) -> dict[str, torch.Tensor]:
    """A state dict as TransformerLens saves it: the parameters, and the buffers of each layer."""
    buffers = {
        f"blocks.{layer}.attn.{name}": array
        for layer in range(2)
        for name, array in (("mask", torch.ones(64, 64).tril().bool()), ("IGNORE", torch.tensor(-1e5)))
    }
    return load_file(tiny_attn.path(step)) | buffers


def transformers_files(model: "torch.nn.Module", folder: Path, **options: object) -> dict[str, bytes]:
    """What `save_pretrained` writes for a model, in one file or several."""
    model.save_pretrained(folder, **options)  # type: ignore[operator]
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def named(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """A GPT-NeoX's arrays by the names of its files; newer versions of the library have another one in memory."""
    return {{"lm_head.weight": "embed_out.weight"}.get(name, name): array for name, array in model.state_dict().items()}


def torch_files(model: "torch.nn.Module", folder: Path) -> dict[str, bytes]:
    """The same with the weights as older versions wrote them: pytorch_model.bin."""
    files = transformers_files(model, folder)
    del files["model.safetensors"]
    return files | {"pytorch_model.bin": packed(named(model))}


def neox(seed: int, vocabulary: int = 512, heads: int = 4) -> "torch.nn.Module":
    """A GPT-NeoX of Pythia's options, small and random."""
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    torch.manual_seed(seed)
    return GPTNeoXForCausalLM(
        GPTNeoXConfig(
            vocab_size=vocabulary, hidden_size=32, num_hidden_layers=2, num_attention_heads=heads, intermediate_size=64,
            max_position_embeddings=64, rotary_pct=0.25,
        )
    )  # fmt: skip


__all__ = [
    "SHAPE",
    "TOKENIZER",
    "lens_state",
    "named",
    "neox",
    "packed",
    "save",
    "tiny_attn",
    "torch_files",
    "transformers_files",
]

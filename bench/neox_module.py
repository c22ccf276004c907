"""A decoder of Pythia's shape as transformers has it: what a sampler that masks whole tensors is given."""

import torch
from plain_module import Plain
from torch import Tensor, nn
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

from rllc.config import Model
from rllc.models import hf
from rllc.models.chains import Weights

PYTHIA_70M = {  # EleutherAI/pythia-70m, config.json
    "model_type": "gpt_neox", "vocab_size": 50304, "hidden_size": 512, "num_hidden_layers": 6,
    "num_attention_heads": 8, "intermediate_size": 2048, "max_position_embeddings": 2048, "rotary_pct": 0.25,
}  # fmt: skip


def described(context: int) -> Model:
    """Pythia-70M at this context."""
    return hf.describe({**PYTHIA_70M, "max_position_embeddings": context}, "config.json")


class NeoX(nn.Module):
    """Logits of tokens, (B, L) → (B, L, V); heads lie in fused matrices."""

    def __init__(self, weights: Weights, model: Model) -> None:
        super().__init__()
        self._weights, self._model = weights, model
        config = GPTNeoXConfig(**{**PYTHIA_70M, "max_position_embeddings": model.n_ctx})
        self.inner = GPTNeoXForCausalLM(config).eval()
        saved = hf.save(weights, model)
        own = self.inner.state_dict()
        if "lm_head.weight" in own:  # as transformers calls it since its fifth version
            saved["lm_head.weight"] = saved.pop("embed_out.weight")
        self.inner.load_state_dict(saved)

    def forward(self, tokens_BL: Tensor) -> Tensor:
        """Logits, shape (B, L, V)."""
        return self.inner(tokens_BL).logits

    def masks(self, layer: int, head: int) -> dict[str, Tensor | None]:
        """Of each parameter that holds something of the head, which entries are its own."""
        marked = {name: torch.zeros_like(array) for name, array in self._weights.items()}
        for matrix in ("q", "k", "v", "o", "bq", "bk", "bv"):
            marked[f"L{layer}.{matrix}"][head] = 1.0
        return {f"inner.{name}": mask > 0 for name, mask in hf.save(marked, self._model).items() if mask.any()}


def twin(weights: Weights, model: Model) -> Plain | NeoX:
    """The torch module of a model."""
    return NeoX(weights, model) if model.d_mlp else Plain(weights, model)

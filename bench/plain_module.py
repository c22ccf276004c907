"""The attention-only transformer as an ordinary torch module: what a sampler that masks whole tensors is given.

Written without rllc's own forward pass, so that equal losses say something. Parameters carry the names of rllc's
stacked arrays with "_" for "." (`L0_q` is heads × d_model × d_head).

Shapes: B rows, L positions, E residual width, H heads, K head width, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rllc.config import Model
from rllc.models.chains import Weights
from rllc.models.layout import MATRICES


class Plain(nn.Module):
    """Logits of tokens; a module because devinterp copies one, freezes its parameters and trains the rest."""

    def __init__(self, weights: Weights, model: Model) -> None:
        super().__init__()
        self.shape = model
        for name, array in weights.items():
            self.register_parameter(name.replace(".", "_"), nn.Parameter(array.clone()))

    def forward(self, tokens_BL: Tensor) -> Tensor:
        """Logits, shape (B, L, V)."""
        learned = self.shape.positions == "learned"
        x_BLE = F.embedding(tokens_BL, self.embed) + (self.pos[: tokens_BL.shape[1]] if learned else 0)
        for layer in range(self.shape.n_layers):
            x_BLE = x_BLE + self._attention(x_BLE, layer)
        normal = F.layer_norm(x_BLE, x_BLE.shape[-1:], self.final_w, self.final_b)
        return F.linear(normal, self.unembed.T, self.unembed_b)

    def _attention(self, x_BLE: Tensor, layer: int) -> Tensor:
        own = {name: getattr(self, f"L{layer}_{name}") for name in (*MATRICES, "bo", "ln1_w", "ln1_b")}
        content = F.layer_norm(x_BLE, x_BLE.shape[-1:], own["ln1_w"], own["ln1_b"])
        address = content + self.pos[: x_BLE.shape[1]] if self.shape.positions == "shortformer" else content
        query, key, value = (
            F.linear(source, own[name].transpose(0, 1).flatten(1).T, own[f"b{name}"].flatten())
            .unflatten(-1, own[f"b{name}"].shape)
            .transpose(1, 2)
            for name, source in (("q", address), ("k", address), ("v", content))
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return F.linear(mixed.transpose(1, 2).flatten(2), own["o"].flatten(0, 1).T, own["bo"])

    def masks(self, layer: int, head: int) -> dict[str, Tensor | None]:
        """Of each parameter that holds something of the head, which entries are its own."""
        masks: dict[str, Tensor | None] = {}
        for name in (f"L{layer}_{matrix}" for matrix in MATRICES):
            masks[name] = torch.zeros_like(getattr(self, name), dtype=torch.bool)
            masks[name][head] = True
        return masks


def token_losses(module: nn.Module, tokens_BL: Tensor) -> Tensor:
    """Next-token cross-entropy (nats), shape (B, L − 1)."""
    logits = module(tokens_BL)[:, :-1]
    return F.cross_entropy(logits.flatten(0, 1), tokens_BL[:, 1:].flatten(), reduction="none").view(len(logits), -1)

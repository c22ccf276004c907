"""The norms of a decoder: LayerNorm, or RMSNorm without a mean and a shift.

Shapes: C chains, B rows, L positions, E residual width.
"""

import torch.nn.functional as F
from torch import Tensor

from rllc.config import Model
from rllc.models.chains import Weights, over_rows


def normalise(weights: Weights, name: str, x_CBLE: Tensor, model: Model) -> Tensor:
    """The norm called `name` over E, shape (C, B, L, E).

    layer: (x − mean x) / √(var x + ε) · w + b,      rms: x / √(mean x² + ε) · w
    """
    scale, width = weights[f"{name}.w"], x_CBLE.shape[-1:]
    if model.norm == "rms":
        if scale.dim() == 1:
            return F.rms_norm(x_CBLE, width, scale, model.eps)
        return F.rms_norm(x_CBLE, width, eps=model.eps) * over_rows(scale, 1)
    shift = weights[f"{name}.b"]
    if scale.dim() == shift.dim() == 1:
        return F.layer_norm(x_CBLE, width, scale, shift, model.eps)
    return F.layer_norm(x_CBLE, width, eps=model.eps) * over_rows(scale, 1) + over_rows(shift, 1)


def centre(array: Tensor, model: Model) -> Tensor:
    """What the norm sees of what is added to its input: a LayerNorm nothing of the mean over the last axis."""
    return array - array.mean(-1, keepdim=True) if model.norm == "layer" else array

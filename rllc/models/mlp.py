"""The MLP of a layer.

Shapes: C chains, B rows, L positions, E residual width, M inner width.
"""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor

from rllc.config import Model
from rllc.models.chains import Weights, linear
from rllc.models.norm import normalise

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}


def mlp(weights: Weights, layer: int, x_CBLE: Tensor, model: Model) -> Tensor:
    """The MLP's output on the stream x, shape (C, B, L, E): y = norm(x), act(y W_in + b_in) W_out + b_out.

    Gated: act(y W_gate + b_gate) · (y W_in + b_in) in place of act(…) (Shazeer 2020, arXiv 2002.05202).
    """
    own = f"L{layer}.mlp"
    content = normalise(weights, f"L{layer}.ln2", x_CBLE, model)
    inner = linear(content, weights[f"{own}.in"], weights.get(f"{own}.bin"))
    act = ACTIVATIONS[model.activation]
    if model.gated:
        inner = act(linear(content, weights[f"{own}.gate"], weights.get(f"{own}.bgate"))) * inner
    else:
        inner = act(inner)
    return linear(inner, weights[f"{own}.out"], weights.get(f"{own}.bout"))

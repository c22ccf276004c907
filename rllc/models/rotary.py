"""Rotary positions (Su et al. 2021, arXiv 2104.09864): queries and keys are turned by angles that grow with position.

Shapes: K head width, D turned channels, L positions.
"""

import functools

import torch
from torch import Tensor

from rllc.config import Model


def turn(x: Tensor, model: Model) -> Tensor:
    """Queries or keys (…, K, L), turned: channel i of the first D pairs with i + D/2, the rest stays.

    (x_i, x_{i+D/2}) is turned by the angle l · base^(−2i/D) at position l.
    """
    half = model.d_rotary // 2
    cos, sin = _table(model.d_rotary, model.rotary_base, x.shape[-1], x.dtype, x.device)
    first, second, rest = torch.split(x, [half, half, x.shape[-2] - 2 * half], -2)
    return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], -2)


@functools.lru_cache(16)
def _table(channels: int, base: float, length: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines, (D/2, L) each; the angles are float32, as those that models are trained with."""
    slowness = torch.arange(0, channels, 2, dtype=torch.float32) / channels
    angle = (1 / base**slowness)[:, None] * torch.arange(length, dtype=torch.float32)
    return angle.cos().to(device, dtype), angle.sin().to(device, dtype)

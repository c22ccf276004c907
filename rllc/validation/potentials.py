"""Losses without data whose learning coefficient is known, under the contract of `rllc.backends.contract`.

The loss is the population's, so that every row has the same and the minibatches add no noise.

Shapes: C chains, B rows, D weights; O × I, a matrix from I inputs to O outputs.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


class Quadratic:
    """ℓ = ½ Σ h w², at w* = 0; h may be 0."""

    def __init__(self, curvature_D: Tensor) -> None:
        self.curvature_D = curvature_D
        self.start = [torch.zeros_like(curvature_D)]

    def losses(self, live: list[Tensor], rows_CB: Tensor, /) -> Tensor:
        """Loss of each chain, (C, B), the same in every row."""
        return _same((live[0].square() * self.curvature_D).sum(1) / 2, rows_CB)

    def reference(self, rows_CB: Tensor, /) -> Tensor:
        """Zero, (C, B)."""
        return torch.zeros(rows_CB.shape, dtype=self.curvature_D.dtype)


class Crossing:
    """ℓ = Σ over independent copies of ∏ w_i^(2k_i), at w* = 0."""

    def __init__(self, powers: Sequence[int], copies: int) -> None:
        self.powers = powers
        self.start = [torch.zeros(copies, dtype=torch.float64) for _ in powers]

    def losses(self, live: list[Tensor], rows_CB: Tensor, /) -> Tensor:
        """Loss of each chain, (C, B), the same in every row."""
        factors = [array ** (2 * power) for array, power in zip(live, self.powers, strict=True)]
        return _same(torch.stack(factors).prod(0).sum(1), rows_CB)

    def reference(self, rows_CB: Tensor, /) -> Tensor:
        """Zero, (C, B)."""
        return torch.zeros(rows_CB.shape, dtype=torch.float64)


class Product:
    """ℓ = ½ ‖W_L … W_1 − W*_L … W*_1‖², the population loss of y = W_L … W_1 x with E x xᵀ = I.

    `true` is W*_1 … W*_L, each (O, I), and `moving` says by place which of them are the part; the others are frozen.
    """

    def __init__(self, true: Sequence[Tensor], moving: Sequence[int]) -> None:
        self.true, self.moving = true, moving
        self.start = [true[place] for place in moving]
        self.target = _product(true)

    def losses(self, live: list[Tensor], rows_CB: Tensor, /) -> Tensor:
        """Loss of each chain, (C, B), the same in every row."""
        factors = list(self.true)
        for place, array in zip(self.moving, live, strict=True):
            factors[place] = array
        return _same((_product(factors) - self.target).square().sum((-2, -1)) / 2, rows_CB)

    def reference(self, rows_CB: Tensor, /) -> Tensor:
        """Zero, (C, B)."""
        return torch.zeros(rows_CB.shape, dtype=self.target.dtype)


def product(
    widths: Sequence[int],
    ranks: Sequence[int],
    *,
    seed: int,
    moving: Sequence[int] | None = None,
    dtype: torch.dtype = torch.float64,
) -> Product:
    """Build matrices W_1 … W_L of the given ranks in general position, with singular values from 0.8 to 1.2.

    Each maps onto the space that the next one reads, so that of equal ranks r the product has rank r too. Without
    `moving` all of them move.
    """
    generator = torch.Generator().manual_seed(seed)
    bases = [_orthonormal(width, generator) for width in widths]
    true = []
    for place, rank in enumerate(ranks):
        scale = 0.8 + 0.4 * torch.rand(rank, generator=generator, dtype=torch.float64)
        true.append(((bases[place + 1][:, :rank] * scale) @ bases[place][:, :rank].T).to(dtype))
    return Product(true, range(len(true)) if moving is None else moving)


def stretched(widths: Sequence[int], rank: int, factor: float, *, seed: int) -> Product:
    """Build (c A, B/c) from the two matrices (A, B) of `product`: the same map from another point of its zero set."""
    first, second = product(widths, (rank, rank), seed=seed).true
    return Product((factor * first, second / factor), (0, 1))


def _orthonormal(width: int, generator: torch.Generator) -> Tensor:
    basis: Tensor = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))[0]
    return basis


def _product(factors: Sequence[Tensor]) -> Tensor:
    """W_L … W_1, from the narrower end."""
    forward = factors[0].shape[-1] <= factors[-1].shape[-2]
    whole, *others = factors if forward else factors[::-1]
    for factor in others:
        whole = factor @ whole if forward else whole @ factor
    return whole


def _same(loss_C: Tensor, rows_CB: Tensor) -> Tensor:
    return loss_C[:, None].expand(rows_CB.shape)

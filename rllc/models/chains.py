"""Arrays with or without a leading chain axis, against activations of all chains and rows.

Shapes: C chains, B rows, L positions, E residual width, F another width.
"""

import torch
from torch import Tensor

Weights = dict[str, Tensor]


def over_rows(array: Tensor, dims: int) -> Tensor:
    """Put axes between the chain axis, where there is one, and the `dims` own axes, so that it broadcasts over rows."""
    if array.dim() == dims:
        return array
    return array.view(array.shape[0], *[1] * (3 - dims), *array.shape[1:])


def over_all(array: Tensor, x_CBLE: Tensor) -> Tensor:
    """A matrix, or one for each chain, for every row of every chain, shape (C·B, …, …)."""
    chains, rows = x_CBLE.shape[:2]
    if array.dim() == 2:
        return array.expand(chains * rows, *array.shape)
    return array.unsqueeze(1).expand(chains, rows, *array.shape[1:]).flatten(0, 1)


def linear(x_CBLE: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    """x · matrix + bias, shape (C, B, L, F); the matrix is (E, F) or (C, E, F), the bias (F), (C, F) or None."""
    shape = *x_CBLE.shape[:-1], matrix.shape[-1]
    if matrix.dim() == 3:
        product = torch.bmm(x_CBLE.flatten(1, 2), matrix).view(shape)
    elif bias is not None and bias.dim() == 1:
        return torch.addmm(bias, x_CBLE.flatten(0, 2), matrix).view(shape)
    else:
        product = (x_CBLE.flatten(0, 2) @ matrix).view(shape)
    return product if bias is None else product + over_rows(bias, 1)

"""Curves without common structure, to compare a clustering index against.

Shape letters: N draws, P parts, D datasets, T training steps.
"""

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def walks(value_PDT: Values, draws: int, seed: int) -> Values:
    """Draw random walks with the parts' own increments.

    Each part starts where it starts and takes its own increments in random order with random signs; the increments of
    its datasets at one step stay together. So every walk has exactly the increments' second moments of its part, level
    and noise included, and what parts have in common over time (rises, plateaus, their order) is gone.

    Returns:
        value_NPDT: the walks.
    """
    rng = np.random.default_rng(seed)
    increment_PTD = np.diff(value_PDT, axis=2).transpose(0, 2, 1)
    parts, steps, _ = increment_PTD.shape
    value_NPDT = np.empty((draws, *value_PDT.shape))
    for draw in range(draws):
        order_PT = rng.permuted(np.tile(np.arange(steps), (parts, 1)), axis=1)
        sign_PT1 = rng.choice([-1.0, 1.0], size=(parts, steps, 1))
        moved_PTD = np.take_along_axis(increment_PTD, order_PT[:, :, None], axis=1) * sign_PT1
        walk_PTD = np.cumsum(np.concatenate([value_PDT[:, None, :, 0], moved_PTD], axis=1), axis=1)
        value_NPDT[draw] = walk_PTD.transpose(0, 2, 1)
    return value_NPDT

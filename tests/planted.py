"""Curves of known groups."""

import numpy as np
from numpy.typing import NDArray

GRID_T = np.linspace(0, 1, 24)
SHAPES_GT = np.stack([GRID_T, np.exp(-((GRID_T - 0.5) ** 2) / 0.02), np.cos(4 * np.pi * GRID_T) / 2 + 0.5])


def curves(noise: float = 0.03, gains: tuple[float, float] = (1, 1)) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Five rising, four bumped and three waving parts, in mixed order, on two datasets; and the truth."""
    rng = np.random.default_rng(0)
    truth_P = rng.permutation(np.repeat([0, 1, 2], [5, 4, 3]))
    gain_P11 = rng.uniform(*gains, size=(12, 1, 1))
    value_PDT = gain_P11 * np.stack([SHAPES_GT[truth_P], 0.7 * SHAPES_GT[truth_P]], axis=1)
    return value_PDT + noise * gain_P11 * rng.normal(size=value_PDT.shape), truth_P


def heights(noise: float = 0.02) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Twelve parts of one shape at three heights; and the truth."""
    rng = np.random.default_rng(0)
    truth_P = np.repeat([0, 1, 2], 4)
    value_PDT = (truth_P[:, None, None] + np.stack([SHAPES_GT[1], 0.5 * SHAPES_GT[1]])) * np.ones((12, 1, 1))
    return value_PDT + noise * rng.normal(size=value_PDT.shape), truth_P

"""Curves without common structure, to compare a clustering index against.

Shape letters: N draws, P parts, D datasets, T training steps, F frequencies.
"""

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def draw(value_PDT: Values, draws: int, seed: int) -> dict[str, Values]:
    """Draw null curves of both kinds, by name."""
    return {"walks": walks(value_PDT, draws, seed), "phases": phases(value_PDT, draws, seed)}


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


def phases(value_PDT: Values, draws: int, seed: int) -> Values:
    """Draw curves with the parts' own power spectra and random phases.

    Each part's curve is joined to its mirror image, so that no jump lies between its ends; every frequency but 0 gets
    a random phase, the same for all datasets of the part; the first half is kept (Theiler and others, Physica D 58,
    1992). Level, smoothness and the relation of a part's datasets stay; when something happens is gone.

    Returns:
        value_NPDT: the curves.
    """
    rng = np.random.default_rng(seed)
    steps = value_PDT.shape[2]
    power_PDF = np.fft.rfft(np.concatenate([value_PDT, value_PDT[:, :, ::-1]], axis=2), axis=2)
    angle_NPF = rng.uniform(0, 2 * np.pi, size=(draws, len(value_PDT), power_PDF.shape[2]))
    angle_NPF[:, :, 0] = 0
    angle_NPF[:, :, -1] = np.pi * (angle_NPF[:, :, -1] > np.pi)  # the highest frequency has no phase, only a sign
    turned_NPDF = power_PDF * np.exp(1j * angle_NPF)[:, :, None]
    return np.asarray(np.fft.irfft(turned_NPDF, 2 * steps, axis=3)[..., :steps])

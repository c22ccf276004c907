"""What is done to curves before they are compared: an even grid on a log-like axis, and four scalings.

Shape letters: P parts, D datasets, T training steps.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rllc.config import Scaling
from rllc.trajectories import axis

Values = NDArray[np.float64]


def resample(steps: Sequence[int], value_PDT: Values) -> Values:
    """Move curves to as many points, evenly spaced along the log-like axis of steps, by linear interpolation in it."""
    x_T, even_T = axis(steps), even(steps)
    return np.apply_along_axis(lambda value_T: np.interp(even_T, x_T, value_T), -1, value_PDT)


def even(steps: Sequence[int]) -> Values:
    """The places on the log-like axis to which `resample` moves curves."""
    x_T = axis(steps)
    return np.linspace(x_T[0], x_T[-1], len(x_T))


def scale(value_PDT: Values, error_PDT: Values, scaling: Scaling) -> Values:
    """Scale curves; all datasets of a part keep one scale, so their ratio stays.

    none: as they are, level counts.
    global: each dataset divided by its standard deviation over all parts and steps; level counts, datasets weigh alike.
    standardize: each part minus its mean, divided by its standard deviation (over datasets and steps), but never by
        less than its median error, so that noise about a flat curve is not blown up to a shape.
    minmax: each part from 0 to 1 (over datasets and steps).

    A divisor of 0 (a constant curve without error) counts as 1.
    """
    zero, one = np.zeros(1), np.ones(1)
    match scaling:
        case "none":
            shift, divisor = zero, one
        case "global":
            shift, divisor = zero, value_PDT.std(axis=(0, 2), keepdims=True)
        case "standardize":
            shift = value_PDT.mean(axis=(1, 2), keepdims=True)
            divisor = np.maximum(value_PDT.std(axis=(1, 2), keepdims=True), _median(error_PDT)[:, None, None])
        case "minmax":
            shift = value_PDT.min(axis=(1, 2), keepdims=True)
            divisor = value_PDT.max(axis=(1, 2), keepdims=True) - shift
    return np.asarray((value_PDT - shift) / _nonzero(divisor))


def znormalise(value_PDT: Values) -> Values:
    """Give every single curve mean 0 and standard deviation 1, as k-shape needs; a constant curve becomes 0."""
    centred_PDT = value_PDT - value_PDT.mean(axis=2, keepdims=True)
    return np.asarray(centred_PDT / _nonzero(value_PDT.std(axis=2, keepdims=True)))


def _nonzero(divisor: Values) -> Values:
    return np.where(divisor > 0, divisor, 1.0)


def _median(error_PDT: Values) -> Values:
    """Median error of each part over what is known of it; 0 if nothing is."""
    return np.array([np.median(known) if (known := error[np.isfinite(error)]).size else 0.0 for error in error_PDT])

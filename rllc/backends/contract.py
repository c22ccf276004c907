"""What a backend is given (a Potential) and what it gives back (a Trace).

Shapes: C chains, S steps (every one, burn-in included), B rows of a minibatch.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Potential(Protocol):
    """A loss as a function of a part of the weights; arrays are those of the backend."""

    start: list[Any]
    """The part's arrays at w*."""

    def losses(self, live: list[Any], rows: Any, /) -> Any:
        """Loss of each row, (C, B), for live arrays that each carry a leading chain axis and rows (C, B)."""

    def reference(self, rows: Any, /) -> Any:
        """Loss of each row at w*, (C, B)."""


@dataclass(frozen=True)
class Trace:
    """What the chains of one task did.

    Attributes:
        excess_CS: ℓ_batch(w_t) − ℓ_batch(w*) on the same rows (nats), before the update of step t.
        reference_CS: ℓ_batch(w*) of the same rows.
        along_CS: (w_t − w*)·∇ℓ_batch(w_t) (nats).
        away_CS: ‖w_t − w*‖².
        end_CD: the weights after the last step, flattened in the order of `Potential.start`.
        size: d, how many weights move.
    """

    excess_CS: NDArray[np.float64]
    reference_CS: NDArray[np.float64]
    along_CS: NDArray[np.float64]
    away_CS: NDArray[np.float64]
    end_CD: NDArray[np.floating[Any]]
    size: int

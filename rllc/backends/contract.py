"""What a backend is given (a Potential) and what it gives back (a Trace).

A backend is a module with `run(potential, sampler, rows_CSB, *, noise_seeds, noise=1.0) -> Trace`. It takes the update
from `rllc.samplers`, the minibatches as they are given, and the Langevin noise from one generator per chain.

Shapes: C chains, S steps (every one, burn-in included), B rows of a minibatch, D weights of the part.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Potential(Protocol):
    """A loss as a function of a part of the weights; arrays are those of the backend."""

    start: list[Any]
    """The part's arrays at w*; the chains keep their dtype, whatever the losses are computed in."""

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
        accept_CS: logarithm of the Metropolis–Hastings ratio of the move that led to w_t, 0 at w* itself (see
            `samplers.sgld.log_acceptance`); None where a backend or sampler has none.
        curvature: largest eigenvalue found of the Hessian of ℓ_batch at w* (nats per squared weight), from below;
            NaN where a backend cannot tell.
    """

    excess_CS: NDArray[np.float64]
    reference_CS: NDArray[np.float64]
    along_CS: NDArray[np.float64]
    away_CS: NDArray[np.float64]
    end_CD: NDArray[np.floating[Any]]
    size: int
    accept_CS: NDArray[np.float64] | None = None
    curvature: float = math.nan

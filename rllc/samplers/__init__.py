"""Samplers of the localised posterior ∝ exp(−U), U = nβ ℓ + γ/2 ‖w − w*‖², one a file, each two pure functions:

    start(w_CD) -> state                                          a tuple of arrays whose first is w_CD
    step(state, grad_CD, away_CD, xi_CD, *, sampler, t) -> state

`grad` is ∇ℓ_batch at w (mean over rows, without nβ), `away` is w − w*, `xi` is N(0, 1) of the same shape, `t` the
number of the step from 0. They use only what torch tensors and jax arrays share, and never branch on an array or on t,
so a formula stands once for every backend. `sampler.lr` is the ε of SGLD in all of them.

Shapes: C chains, D weights of the part.
"""

from typing import Any, Protocol

from rllc.samplers import rmsprop, sgld, sgnht
from rllc.task import Sampler

State = tuple[Any, ...]


class Method(Protocol):
    """What each module of this package offers."""

    def start(self, w_CD: Any, /) -> State:
        """The state at w*: the weights and whatever the sampler remembers."""

    def step(self, state: State, grad_CD: Any, away_CD: Any, xi_CD: Any, /, *, sampler: Sampler, t: Any) -> State:
        """The state after step t."""


def named(method: str) -> Method:
    """The module of a `Sampler.method`."""
    return {"sgld": sgld, "rmsprop": rmsprop, "sgnht": sgnht}[method]

"""The chains in jax: every step of all chains of a task in one compiled program, the same for all heads of a layer.

Importing this loads jax; `rllc.backends.installed` tells without that whether it is there.

Shapes: C chains, S steps, B rows of a minibatch, D weights of the part, N rows of the pool.
"""

import dataclasses
import functools
import logging
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from rllc import samplers
from rllc.backends import stiffness
from rllc.backends.contract import Trace
from rllc.samplers import sgld
from rllc.task import Sampler

NUMBERS = (
    "lr",
    "nbeta",
    "gamma",
    "alpha",
    "eps",
    "friction",
)  # of a sampler: arguments of the program, not compiled in


@dataclass(frozen=True, eq=False)
class Potential:
    """A loss as a function of a part of the weights: what is compiled apart from the arrays that it works on.

    Attributes:
        start: the part's arrays at w*.
        form: what `loss` is compiled for beside the shapes of its arrays; hashable.
        frozen: the arrays that it needs beside the live ones, in any nesting of tuples and dicts.
        loss: loss(form, frozen, live, rows_B) of one chain: the mean over the rows, which is differentiated, and the
            loss of each row (B). A function of a module, so that equal potentials share a program.
        rows: how many rows there are to draw from.
        reference: the loss of each row at w* by program and shape, filled as rows are met; the same dict for potentials
            that have the same losses there.
    """

    start: list[Any]
    form: Any
    frozen: Any
    loss: Callable[[Any, Any, Any, Array], tuple[Array, Array]]
    rows: int
    reference: dict[Any, NDArray[np.float64]] = field(default_factory=dict)

    def close(self) -> None:
        """Nothing is kept for a part alone."""


class _Program(NamedTuple):
    """What is compiled; `sampler` has no numbers."""

    loss: Callable[[Any, Any, Any, Array], tuple[Array, Array]]
    form: Any
    sampler: Sampler


def run(
    potential: Potential,
    sampler: Sampler,
    rows_CSB: NDArray[np.int64],
    *,
    noise_seeds: list[int],
    noise: float = 1.0,
) -> Trace:
    """Run the chains; minibatches are given, the noise comes from one key per chain.

    The update is that of `samplers.named(sampler.method)`. The loss of a step is taken before its update, so step 0 is
    w* itself. ℓ(w*) is what the very same program gives while it stays at w*, so a chain that does not move has an
    excess of exactly 0. `noise` is the standard deviation of ξ; other than 1 it exists for tests.
    """
    rows_SCB = np.ascontiguousarray(rows_CSB.swapaxes(0, 1), dtype=np.int32)
    none: dict[str, Any] = dict.fromkeys(NUMBERS, 0.0)
    program = _Program(potential.loss, potential.form, dataclasses.replace(sampler, **none))
    numbers = {name: np.asarray(getattr(sampler, name), sampler.dtype) for name in NUMBERS}
    numbers["noise"] = np.asarray(noise, sampler.dtype)
    keys_C2 = np.array([divmod(seed, 2**32) for seed in noise_seeds]).astype(np.uint32)
    with warnings.catch_warnings(), jax.enable_x64(sampler.dtype == "float64"):
        warnings.simplefilter("ignore")
        chains = functools.partial(_chains, program, (potential.frozen, potential.start, numbers, keys_C2))
        reference_SCB = _reference(potential, program, rows_SCB, chains)
        end_CD, loss_SCB, sums = (np.asarray(array) for array in chains(rows_SCB, len(rows_SCB), True))
        slope = functools.partial(_gradient, program, (potential.frozen, potential.start))
        start_D = np.asarray(ravel_pytree(potential.start)[0])
        curvature = stiffness.largest(lambda w_D: np.asarray(slope(w_D, rows_SCB[0])), start_D, sampler.lr)
    excess_CS = (loss_SCB.astype(np.float64) - reference_SCB).mean(2).T
    along_CS, away_CS, square_CS, work_CS = sums.astype(np.float64).swapaxes(1, 2)
    accept_CS = None
    if sampler.method == "sgld":
        accept_CS = sgld.log_acceptance(excess_CS, along_CS, away_CS, square_CS, work_CS, sampler=sampler)
    return Trace(
        excess_CS, reference_SCB.mean(2).T, along_CS, away_CS, end_CD=end_CD, size=end_CD.shape[1],
        accept_CS=accept_CS, curvature=curvature,
    )  # fmt: skip


def _reference(
    potential: Potential, program: _Program, rows_SCB: NDArray[np.int32], chains: Callable[..., Any]
) -> NDArray[np.float64]:
    """Loss of each row at w*, (S, C, B): rows that no run has met before go through the program with w held still."""
    key = program, rows_SCB.shape
    table_N = potential.reference.setdefault(key, np.full(potential.rows, np.nan))
    missing = np.unique(rows_SCB[np.isnan(table_N[rows_SCB])])
    for first in range(0, len(missing), rows_SCB.size):
        some = missing[first : first + rows_SCB.size]
        steps = -(-len(some) // rows_SCB[0].size)
        _, loss_SCB, _ = chains(np.resize(some, rows_SCB.shape), steps, False)
        table_N[some] = np.asarray(loss_SCB).reshape(-1)[: len(some)]
    return table_N[rows_SCB]


@functools.partial(jax.jit, static_argnums=0)
def _chains(program: _Program, given: Any, rows_SCB: Array, count: int, moves: bool) -> tuple[Array, Array, Array]:
    """The first `count` steps: end (C, D), losses (S, C, B) and the sums of `_seen` (4, S, C)."""
    frozen, start, numbers, keys_C2 = given
    start_D, unravel = ravel_pytree(start)
    sampler = dataclasses.replace(program.sampler, **{name: numbers[name] for name in NUMBERS})
    method, keys_C = samplers.named(sampler.method), jax.random.wrap_key_data(keys_C2)

    def loss(w_D: Array, rows_B: Array) -> tuple[Array, Array]:
        return program.loss(program.form, frozen, unravel(w_D), rows_B)

    def draw(key: Array, t: Array) -> Array:
        return jax.random.normal(jax.random.fold_in(key, t), start_D.shape, start_D.dtype)

    def step(t: Array, carry: Any) -> Any:
        state, last, loss_SCB, sums = carry
        grad_CD, loss_CB = jax.vmap(jax.grad(loss, has_aux=True))(state[0], rows_SCB[t])
        here = state[0] - start_D, grad_CD
        xi_CD = numbers["noise"] * jax.vmap(draw, (0, None))(keys_C, t)
        moved = method.step(state, grad_CD, here[0], xi_CD, sampler=sampler, t=t)
        state = jax.tree.map(functools.partial(jnp.where, moves), moved, state)
        return state, here, loss_SCB.at[t].set(loss_CB), sums.at[:, t].set(_seen(*here, *last))

    state = method.start(jnp.tile(start_D, (rows_SCB.shape[1], 1)))
    losses, sums = (jnp.zeros(shape, start_D.dtype) for shape in (rows_SCB.shape, (4, *rows_SCB.shape[:2])))
    still = jnp.zeros_like(state[0])
    state, _, losses, sums = jax.lax.fori_loop(0, count, step, (state, (still, still), losses, sums))
    return state[0], losses, sums


@functools.partial(jax.jit, static_argnums=0)
def _gradient(program: _Program, given: Any, w_D: Array, rows_CB: Array) -> Array:
    """∇ℓ at w (D), over the rows of all chains."""
    frozen, start = given
    _, unravel = ravel_pytree(start)

    def loss(w_D: Array, rows_B: Array) -> tuple[Array, Array]:
        return program.loss(program.form, frozen, unravel(w_D), rows_B)

    grad_CD, _ = jax.vmap(jax.grad(loss, has_aux=True), (None, 0))(w_D, rows_CB)
    mean_D: Array = grad_CD.mean(0)
    return mean_D


def _seen(away_CD: Array, grad_CD: Array, last_away_CD: Array, last_grad_CD: Array) -> Array:
    """(w − w*)·∇ℓ, ‖w − w*‖², ‖∇ℓ‖² and ½ (w − w')·(∇ℓ + ∇ℓ') of every chain, (4, C), w' the weights before."""
    work_CD = (away_CD - last_away_CD) * (grad_CD + last_grad_CD) / 2
    return jnp.stack([away_CD * grad_CD, away_CD * away_CD, grad_CD * grad_CD, work_CD]).sum(2)


def _settle() -> None:
    """Keep compiled programs in the user's cache folder, and jax's messages to itself."""
    logging.getLogger("jax").setLevel(logging.CRITICAL)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if jax.config.values["jax_compilation_cache_dir"] is None:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(os.environ.get("RLLC_CACHE") or Path(home) / "rllc") / "jax"
        jax.config.update("jax_compilation_cache_dir", str(folder))  # type: ignore[no-untyped-call]


_settle()

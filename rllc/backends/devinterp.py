"""The chains of devinterp 2.0.1: its optimizers on our minibatches, and its own documented call, to compare with.

Shapes: C chains, S steps, B rows of a minibatch, D weights of the part.
"""

import contextlib
import importlib.util
import os
import random
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rllc.backends.contract import Potential, Trace
from rllc.mistake import Mistake
from rllc.samplers.schedule import rate
from rllc.task import Sampler


def check(sampler: Sampler) -> None:
    """Refuse what devinterp cannot do.

    Raises:
        Mistake: devinterp is not installed, or the method is one that its release gets wrong or does not have.
    """
    if importlib.util.find_spec("devinterp") is None:
        raise Mistake("sampler.backend: devinterp is not installed; pip install 'rllc[devinterp]'.")
    if sampler.method == "sgnht":
        raise Mistake("sampler.method: 'sgnht' of devinterp never applies its momentum; legal here: sgld, rmsprop.")
    if sampler.adapt:
        raise Mistake(
            f"sampler.adapt: {sampler.adapt} is unknown to devinterp, which adapts to the end; legal here: 0."
        )


def run(
    potential: Potential,
    sampler: Sampler,
    rows_CSB: NDArray[np.int64],
    *,
    noise_seeds: list[int],
    noise: float = 1.0,
) -> Trace:
    """Run one chain after another as devinterp does, with its optimizer and the noise of torch's global generator.

    The generator's state is put back at the end. As everywhere, the loss of a step is taken before its update.

    Raises:
        Mistake: see `check`.
    """
    check(sampler)
    with _randomness(), _quiet():
        chains = [
            _chain(potential, sampler, rows_SB, seed=seed, noise=noise)
            for rows_SB, seed in zip(torch.from_numpy(rows_CSB)[:, :, None], noise_seeds, strict=True)
        ]
    seen_CKS = np.stack([seen_KS for seen_KS, _ in chains])
    end_CD = np.stack([end_D for _, end_D in chains])
    excess_CS, reference_CS, along_CS, away_CS = seen_CKS.swapaxes(0, 1)
    return Trace(excess_CS, reference_CS, along_CS, away_CS, end_CD, size=end_CD.shape[1])


def documented(potential: Potential, sampler: Sampler, *, rows: int, seed: int) -> tuple[NDArray[np.float64], float]:
    """λ̂ of each chain by `devinterp.slt.llc.llc`, and its seconds: its own batches, init loss and average.

    `rows` is how many rows it draws minibatches from, without replacement and the same for all chains. The average is
    over every step, burn-in among them, and of losses stored in float32.

    Raises:
        Mistake: see `check`.
    """
    check(sampler)
    with _randomness(), _quiet(), tempfile.TemporaryDirectory() as folder:
        from devinterp.slt.llc import llc

        began = time.perf_counter()
        found = llc(
            _Weights(potential),
            [{"input_ids": torch.tensor([row, row])} for row in range(rows)],
            {},
            lr=sampler.lr,
            n_beta=sampler.nbeta,
            localization=sampler.gamma,
            num_chains=sampler.chains,
            num_draws=sampler.draws,
            num_burnin_steps=sampler.burn_in,
            num_steps_bw_draws=sampler.every,
            batch_size=sampler.batch,
            init_seed=seed,
            loss_fn=lambda weights, ids: weights(ids[:, 0])[:, None],
            device="cpu",
            output_path=Path(folder, "samples.zarr"),
        )
        chains_C = np.asarray(found.llc_per_chain.to_numpy(), dtype=np.float64)
        return chains_C, time.perf_counter() - began


class _Weights(nn.Module):
    """The part as a module: devinterp copies one for each chain and finds its parameters by name."""

    def __init__(self, potential: Potential) -> None:
        super().__init__()
        self.potential = potential
        self.live = nn.ParameterList([array.clone() for array in potential.start])

    def forward(self, rows_B: Tensor) -> Tensor:
        """Loss of each row, (B,)."""
        losses: Tensor = self.potential.losses([array[None] for array in self.live], rows_B[None])
        return losses[0]


def _chain(
    potential: Potential, sampler: Sampler, rows_S1B: Tensor, *, seed: int, noise: float
) -> tuple[NDArray[np.float64], NDArray[np.floating[Any]]]:
    """Excess, reference, w·∇ℓ and ‖w‖² of every step, (4, S), and the last weights, (D,)."""
    torch.manual_seed(seed)
    start = [array.reshape(-1) for array in potential.start]
    live = [nn.Parameter(array.clone()) for array in potential.start]
    optimizer = _optimizer(live, sampler, noise)
    seen_KS = np.empty((4, len(rows_S1B)))
    for t, rows_1B in enumerate(rows_S1B):
        loss_B = potential.losses([array[None] for array in live], rows_1B)[0]
        optimizer.zero_grad()
        loss_B.mean().backward()
        with torch.no_grad():
            reference_B = potential.reference(rows_1B)[0]
        away_D = torch.cat([array.detach().reshape(-1) - base for array, base in zip(live, start, strict=True)])
        grad_D = torch.cat([array.grad.reshape(-1) for array in live if array.grad is not None])
        means = [(loss_B.detach() - reference_B).double().mean(), reference_B.double().mean()]
        seen_KS[:, t] = torch.stack([*means, (away_D * grad_D).double().sum(), away_D.double().square().sum()]).numpy()
        optimizer.param_groups[0]["lr"] = rate(sampler, t)
        optimizer.step()
    return seen_KS, torch.cat([array.detach().reshape(-1) for array in live]).numpy()


def _optimizer(live: list[nn.Parameter], sampler: Sampler, noise: float) -> Any:
    from devinterp.optim import SGMCMC

    options = {"lr": sampler.lr, "nbeta": sampler.nbeta, "localization": sampler.gamma, "noise_level": noise}
    if sampler.method == "rmsprop":
        return SGMCMC.rmsprop_sgld(live, alpha=sampler.alpha, eps=sampler.eps, **options)
    return SGMCMC.sgld(live, **options)


@contextlib.contextmanager
def _randomness() -> Iterator[None]:
    """Put back the global random states that devinterp sets."""
    python, legacy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep devinterp's warnings, and those of what it imports, and its progress bars off the user's terminal."""
    with warnings.catch_warnings(), open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        warnings.simplefilter("ignore")
        yield

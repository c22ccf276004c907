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
from collections.abc import Iterator, Sequence
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
    """Run the chains, each with an optimizer of devinterp's own and the noise of torch's global generator.

    They step together, because a potential may be built for this number of chains; each has its own state of the
    generator, as if they ran one after another. The state of the caller is put back at the end. As everywhere, the loss
    of a step is taken before its update.

    Raises:
        Mistake: see `check`.
    """
    check(sampler)
    chains, steps, _ = rows_CSB.shape
    rows = torch.from_numpy(rows_CSB)
    start_D = _flat(potential.start)
    seen_CKS = np.empty((chains, 4, steps))
    with _randomness(), _quiet():
        live = [[nn.Parameter(array.clone()) for array in potential.start] for _ in range(chains)]
        optimizers = [_optimizer(arrays, sampler, noise) for arrays in live]
        states = [torch.Generator().manual_seed(seed).get_state() for seed in noise_seeds]
        for t in range(steps):
            seen_CKS[:, :, t] = _losses(potential, live, start_D, rows[:, t])
            for chain, optimizer in enumerate(optimizers):
                torch.set_rng_state(states[chain])
                optimizer.param_groups[0]["lr"] = rate(sampler, t)
                optimizer.step()
                optimizer.zero_grad()
                states[chain] = torch.get_rng_state()
    end_CD = torch.stack([_flat(arrays).detach() for arrays in live]).numpy()
    excess_CS, reference_CS, along_CS, away_CS = seen_CKS.swapaxes(0, 1)
    return Trace(excess_CS, reference_CS, along_CS, away_CS, end_CD, size=len(start_D))


def documented(potential: Potential, sampler: Sampler, *, rows: int, seed: int) -> tuple[NDArray[np.float64], float]:
    """λ̂ of each chain by `devinterp.slt.llc.llc`, and its seconds: its own batches, init loss and average.

    The potential is asked for one chain at a time. Minibatches are drawn from `rows` rows, without replacement and the
    same for all chains; the average is over every step, burn-in among them, and of losses stored in float32.

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


def _losses(
    potential: Potential, live: list[list[nn.Parameter]], start_D: Tensor, rows_CB: Tensor
) -> NDArray[np.float64]:
    """Excess, reference, (w − w*)·∇ℓ and ‖w − w*‖² of each chain, (C, 4); leaves the gradients in the parameters."""
    loss_CB = potential.losses([torch.stack(arrays) for arrays in zip(*live, strict=True)], rows_CB)
    loss_CB.mean(1).sum().backward()
    with torch.no_grad():
        reference_CB = potential.reference(rows_CB)
        away_CD = torch.stack([_flat(arrays) - start_D for arrays in live])
    grad_CD = torch.stack([_flat([array.grad for array in arrays if array.grad is not None]) for arrays in live])
    means = [(loss_CB.detach() - reference_CB).double().mean(1), reference_CB.double().mean(1)]
    sums = [(away_CD * grad_CD).double().sum(1), away_CD.double().square().sum(1)]
    return np.asarray(torch.stack([*means, *sums], 1).numpy())


def _flat(arrays: Sequence[Tensor]) -> Tensor:
    return torch.cat([array.reshape(-1) for array in arrays])


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

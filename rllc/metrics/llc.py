"""The refined local learning coefficient λ̂ of a part of the weights on a dataset.

λ̂(w*; V, q') = nβ · (E ℓ(w) − ℓ(w*)), the mean over SGLD chains on V with density ∝ exp(−nβ ℓ − γ/2 ‖w − w*‖²), ℓ the
mean per-token cross-entropy on q' (Wang et al., ICLR 2025, arXiv 2410.02984; Lau et al., arXiv 2308.12108).

Shapes: C chains, S steps, B rows of a minibatch.
"""

import hashlib
import math
import time

import numpy as np
import torch
from numpy.typing import NDArray

from rllc import diagnostics, version
from rllc.backends import torch as backend
from rllc.backends.contract import Trace
from rllc.data import batches
from rllc.models.restriction import Pool, restrict
from rllc.task import Estimate, Sampler, Task


def measure(task: Task, pool: Pool) -> Estimate:
    """Run the chains of one task and turn their losses into an estimate.

    The standard error is that of the sampler's own expectation: the spread of the chain means over √C (C − 1 degrees
    of freedom), and, unless the reference is paired, the reference's own error in quadrature.
    """
    sampler = task.sampler
    assert sampler is not None
    began = time.perf_counter()
    potential = restrict(pool, task.part)
    trace = backend.run(potential, sampler, minibatches(task, len(pool.tokens_NL)), noise_seeds=noise_seeds(task))
    potential.close()
    reference, reference_error = _reference(task, pool)
    excess_CS = trace.excess_CS if reference is None else trace.excess_CS + trace.reference_CS - reference
    return estimate(task, trace, excess_CS, reference_error, seconds=time.perf_counter() - began)


def estimate(
    task: Task, trace: Trace, excess_CS: NDArray[np.float64], reference_error: float, *, seconds: float
) -> Estimate:
    """λ̂ = nβ · mean of the kept draws of ℓ(w_t) − ℓ(w*); NaN once a loss or weight of any chain is not finite."""
    sampler = task.sampler
    assert sampler is not None
    kept = slice(sampler.burn_in, None, sampler.every)
    stein_CS = sampler.nbeta * trace.along_CS + sampler.gamma * trace.away_CS
    finite = all(np.isfinite(part).all() for part in (excess_CS, stein_CS, trace.end_CD))
    stein = float(stein_CS[:, kept].mean()) / trace.size if finite else math.nan
    verdict = diagnostics.health(excess_CS[:, kept], sampler, stein=stein)
    chains_C = sampler.nbeta * excess_CS[:, kept].mean(1)
    value = float(chains_C.mean()) if finite else math.nan
    spread = float(chains_C.std(ddof=1)) / math.sqrt(len(chains_C)) if finite and len(chains_C) > 1 else math.nan
    return Estimate(
        task=task,
        value=value,
        error=math.hypot(spread, sampler.nbeta * reference_error),
        chains_C=chains_C,
        loss_CS=excess_CS.astype(np.float32),
        health=verdict.state,
        reason=verdict.reason,
        stats=_stats(excess_CS[:, kept], trace.away_CS[:, kept], trace.size, sampler, stein) if finite else {},
        seconds=seconds,
        code=version.code(),
    )


def minibatches(task: Task, pool_rows: int) -> NDArray[np.int64]:
    """Rows of every minibatch, (C, S, B): the same for every part and checkpoint of a run and dataset."""
    sampler = task.sampler
    assert sampler is not None
    chains = range(sampler.chains) if sampler.batches == "own" else [0] * sampler.chains
    return np.stack(
        [
            batches.estimation(
                pool_rows,
                seed=task.seed,
                run=task.run,
                dataset=task.dataset,
                chain=chain,
                steps=sampler.steps,
                batch=sampler.batch,
            )
            for chain in chains
        ]
    )


def noise_seeds(task: Task) -> list[int]:
    """One seed of the Langevin noise for each chain, from the task's key: never shared between parts or checkpoints."""
    assert task.sampler is not None
    digests = (hashlib.sha256(f"{task.key}:{chain}".encode()).digest() for chain in range(task.sampler.chains))
    return [int.from_bytes(digest[:8], "big") >> 1 for digest in digests]


def _reference(task: Task, pool: Pool) -> tuple[float | None, float]:
    """ℓ(w*) on separate minibatches with its standard error (nats); (None, 0) when paired."""
    sampler = task.sampler
    assert sampler is not None
    if sampler.reference == "paired":
        return None, 0.0
    rows_SB = batches.estimation(
        len(pool.tokens_NL), seed=task.seed, run=task.run, dataset=task.dataset, chain=-1,
        steps=sampler.reference_batches, batch=sampler.batch,
    )  # fmt: skip
    loss = torch.cat([pool.reference(torch.from_numpy(rows)[None]) for rows in rows_SB]).double().numpy()
    return float(loss.mean()), float(loss.std(ddof=1)) / math.sqrt(loss.size)


def _stats(
    excess_CS: NDArray[np.float64], away_CS: NDArray[np.float64], size: int, sampler: Sampler, stein: float
) -> dict[str, float]:
    change, p = diagnostics.drift(excess_CS)
    return {
        "weights": float(size),
        "stein": stein,
        "localised": sampler.gamma * float(away_CS.mean()) / (stein * size) if stein > 0 else math.nan,
        "bias_burn_in": diagnostics.burn_in_bias(sampler),
        "rhat": diagnostics.rhat(excess_CS),
        "ess": diagnostics.effective_draws(excess_CS),
        "drift": sampler.nbeta * change,
        "drift_p": p,
    }

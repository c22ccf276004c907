"""The refined local learning coefficient λ̂ of a part of the weights on a dataset.

λ̂(w*; V, q') = nβ · (E ℓ(w) − ℓ(w*)), the mean over SGLD chains on V with density ∝ exp(−nβ ℓ − γ/2 ‖w − w*‖²), ℓ the
mean per-token cross-entropy on q' (Wang et al., ICLR 2025, arXiv 2410.02984; Lau et al., arXiv 2308.12108).

Shapes: C chains, S steps, B rows of a minibatch.
"""

import dataclasses
import hashlib
import importlib
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rllc import bias, budget, diagnostics, intervals, version
from rllc.backends.contract import Potential, Trace
from rllc.data import batches
from rllc.models import last_head
from rllc.models.module import Data, Loss, ModulePart, evaluating
from rllc.models.pool import Pool
from rllc.models.restriction import restrict
from rllc.task import Estimate, Sampler, Task


def measure(task: Task, pool: Pool) -> Estimate:
    """Estimate one task of a decoder; see `sample`."""
    began = time.perf_counter()
    potential = _restrict(task, pool)
    found = sample(task, potential, reference=pool.reference, rows=len(pool.tokens_NL))
    potential.close()
    return dataclasses.replace(found, seconds=time.perf_counter() - began)


def measure_together(tasks: Sequence[Task], pool: Pool) -> list[Estimate]:
    """Estimate tasks of one pool, sampler and seed that are heads of its last layer, whose chains step together.

    Each estimate is to the bit what `measure` gives, and has its share of the time; what the heads do not change of the
    logits is computed once for a step of all of them (`models.last_head`).
    """
    from rllc.backends import torch as backend

    began, (task, *_) = time.perf_counter(), tasks
    sampler, rows = task.sampler, len(pool.tokens_NL)
    assert sampler is not None
    assert sampler.budget is None
    heads = [each for task in tasks if isinstance(each := restrict(pool, task.part), last_head.LastHead)]
    assert len(heads) == len(tasks), "only heads of the last layer step together"
    start, start_error = _reference(task, pool.reference, rows)
    chains = range(sampler.chains)
    traces = backend.together(
        heads, partial(last_head.losses, heads), sampler, minibatches(task, rows, chains),
        noise_seeds=[noise_seeds(task, chains) for task in tasks],
    )  # fmt: skip
    for each in heads:
        each.close()
    seconds = (time.perf_counter() - began) / len(tasks)
    return [
        estimate(task, trace, _excess(trace, start), start_error, seconds=seconds, norm=_norm(each))
        for task, trace, each in zip(tasks, traces, heads, strict=True)
    ]


def measure_module(task: Task, module: nn.Module, loss: Loss, data: Data) -> Estimate:
    """Estimate one task of any torch module, which is left as it was; see `sample`.

    Raises:
        Mistake: the part, a weight, the loss or the data cannot be used.
    """
    sampler = task.sampler
    assert sampler is not None
    with evaluating(module):
        potential = ModulePart(
            module, loss, data, task.part, chains=sampler.chains, batch=sampler.batch, dtype=sampler.dtype
        )
        return sample(task, potential, reference=potential.reference, rows=len(potential))


def sample(task: Task, potential: Potential, *, reference: Callable[[Tensor], Tensor], rows: int) -> Estimate:
    """Run the chains of one task on any potential and turn their losses into an estimate.

    `reference` gives the loss of each row of (1, B) at w*, `rows` is how many rows there are to draw from. The standard
    error is that of the sampler's own expectation: the spread of the chain means over √C (C − 1 degrees of freedom),
    and, unless the reference is paired, the reference's own error in quadrature. With a budget the chains of `sampler`
    are a pilot, which tells how many fresh ones make the estimate (`rllc.budget`); they run in blocks of the pilot's
    shape.
    """
    sampler = task.sampler
    assert sampler is not None
    began = time.perf_counter()
    backend = importlib.import_module(f"rllc.backends.{sampler.backend}")
    start, start_error = _reference(task, reference, rows)

    def run(chains: range) -> Trace:
        rows_CSB, seeds = minibatches(task, rows, chains), noise_seeds(task, chains)
        trace: Trace = backend.run(potential, sampler, rows_CSB, noise_seeds=seeds)
        return trace

    trace = run(range(sampler.chains))
    pilot_C = _chain_means(_excess(trace, start), sampler)
    if sampler.budget is not None and np.isfinite(pilot_C).all():
        stop = sampler.chains + budget.chains(pilot_C, sampler, sampler.nbeta * start_error)
        starts = range(sampler.chains, stop, sampler.chains)
        trace = _join([run(range(first, first + sampler.chains)) for first in starts])
    seconds = time.perf_counter() - began
    return estimate(task, trace, _excess(trace, start), start_error, seconds=seconds, norm=_norm(potential))


def estimate(
    task: Task,
    trace: Trace,
    excess_CS: NDArray[np.float64],
    reference_error: float,
    *,
    seconds: float,
    norm: float = math.nan,
) -> Estimate:
    """λ̂ = nβ · mean of the kept draws of ℓ(w_t) − ℓ(w*); NaN once a loss or weight of any chain is not finite.

    `reference_error` is that of ℓ(w*) (nats per token), `norm` is ‖w*‖ of the part. With `bias: removed`, value, error
    and chains are all multiplied by `bias.correction`, and `stats["bias_removed"]` says how many nats that took.
    """
    sampler = task.sampler
    assert sampler is not None
    kept_CS, chains_C = excess_CS[:, sampler.burn_in :: sampler.every], _chain_means(excess_CS, sampler)
    value, error, stats = math.nan, math.nan, dict[str, float]()
    if all(np.isfinite(part).all() for part in (excess_CS, trace.along_CS, trace.away_CS, trace.end_CD)):
        stats = diagnostics.numbers(trace, kept_CS, sampler, norm=norm)
        value, error, stats["freedom"] = _mean(sampler.nbeta * kept_CS, sampler, sampler.nbeta * reference_error)
        factor = 1.0 if sampler.bias == "reported" else bias.correction(value, stats)
        stats["bias_removed"] = value - factor * value
        value, error, chains_C = factor * value, factor * error, factor * chains_C
    verdict = diagnostics.health(stats, sampler, value=value, error=error, chains=len(chains_C))
    return Estimate(
        task=task,
        value=value,
        error=error,
        chains_C=chains_C,
        loss_CS=excess_CS.astype(np.float32),
        health=verdict.state,
        reason=verdict.reason,
        stats=stats,
        seconds=seconds,
        code=version.code(),
    )


def minibatches(task: Task, pool_rows: int, chains: range) -> NDArray[np.int64]:
    """Rows of every minibatch, (C, S, B), of some chains: the same for every part and checkpoint of run and dataset."""
    sampler = task.sampler
    assert sampler is not None
    return np.stack(
        [
            batches.estimation(
                pool_rows,
                seed=task.seed,
                run=task.run,
                dataset=task.dataset,
                chain=chain if sampler.batches == "own" else 0,
                steps=sampler.steps,
                batch=sampler.batch,
            )
            for chain in chains
        ]
    )


def noise_seeds(task: Task, chains: range) -> list[int]:
    """One seed of the Langevin noise for each chain, from the task's key: never shared between parts or checkpoints."""
    digests = (hashlib.sha256(f"{task.key}:{chain}".encode()).digest() for chain in chains)
    return [int.from_bytes(digest[:8], "big") >> 1 for digest in digests]


def _excess(trace: Trace, start: float | None) -> NDArray[np.float64]:
    """ℓ(w_t) − ℓ(w*) with ℓ(w*) of the same minibatch, or the given one."""
    return trace.excess_CS if start is None else trace.excess_CS + trace.reference_CS - start


def _norm(potential: Potential) -> float:
    return math.sqrt(sum(float((array**2).sum()) for array in potential.start))


def _chain_means(excess_CS: NDArray[np.float64], sampler: Sampler) -> NDArray[np.float64]:
    return np.asarray(sampler.nbeta * excess_CS[:, sampler.burn_in :: sampler.every].mean(1))


def _mean(draw_CS: NDArray[np.float64], sampler: Sampler, reference_error: float) -> tuple[float, float, float]:
    """Mean of the draws, its standard error, and the degrees of freedom of that, those of the reference included."""
    error, freedom = intervals.standard_error(draw_CS)
    if sampler.reference == "batches":
        rows = sampler.reference_batches * sampler.batch
        freedom = intervals.freedom([error, reference_error], [freedom, rows - 1])
    return float(draw_CS.mean()), math.hypot(error, reference_error), freedom


def _join(blocks: list[Trace]) -> Trace:
    """The traces of several blocks of chains as one."""
    arrays = [name for name, field in vars(blocks[0]).items() if isinstance(field, np.ndarray)]
    joined: dict[str, Any] = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in arrays}
    return dataclasses.replace(blocks[0], **joined, curvature=float(np.max([block.curvature for block in blocks])))


def _restrict(task: Task, pool: Pool) -> Any:
    """The potential of the task's part in the arrays of its backend."""
    sampler = task.sampler
    assert sampler is not None
    if sampler.backend == "jax":
        from rllc.models import jax_restriction

        return jax_restriction.restrict(pool, task.part, sampler.products)
    return restrict(pool, task.part)


def _reference(task: Task, reference: Callable[[Tensor], Tensor], rows: int) -> tuple[float | None, float]:
    """ℓ(w*) on separate minibatches with its standard error (nats); (None, 0) when paired."""
    sampler = task.sampler
    assert sampler is not None
    if sampler.reference == "paired":
        return None, 0.0
    rows_SB = batches.estimation(
        rows, seed=task.seed, run=task.run, dataset=task.dataset, chain=-1, steps=sampler.reference_batches,
        batch=sampler.batch,
    )  # fmt: skip
    loss = torch.cat([reference(torch.from_numpy(rows_B)[None]) for rows_B in rows_SB]).double().cpu().numpy()
    return float(loss.mean()), float(loss.std(ddof=1)) / math.sqrt(loss.size)

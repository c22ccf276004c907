"""What is measured (Task) and what comes out (Estimate): the two values that cross every border of the pipeline."""

import dataclasses
import functools
import hashlib
import json
import math
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii as _text
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION = 2  # part of every key: raise it when the meaning of an old number changes
SCHEMA = 1  # of the result files

HEALTH = ("ok", "suspect", "short", "diverged")


@dataclass(frozen=True)
class Budget:
    """The error that is asked for: at most max(relative · |λ̂|, absolute), with at most `chains` chains."""

    relative: float
    absolute: float
    chains: int


@dataclass(frozen=True)
class Sampler:
    """Options of the chains; each of them changes the number, so each is part of the key.

    The update of SGLD is w ← w − lr/2 · (nbeta ∇ℓ_batch(w) + gamma (w − w*)) + √lr · ξ on the part's own weights, and
    the estimate nbeta · (mean of ℓ(w_t) − ℓ(w*)) over chains and kept draws; `rllc.samplers` has the others.

    Attributes:
        lr: step size ε.
        nbeta: inverse temperature times dataset size, nβ.
        gamma: strength γ of the Gaussian localisation at w*.
        chains: independent chains C.
        draws: draws kept per chain S, counted after burn-in and thinning.
        burn_in: steps before the first kept draw.
        every: steps from one kept draw to the next.
        batch: rows of a minibatch.
        batches: "own" gives each chain minibatches of its own, "shared" one sequence to all chains.
        reference: "paired" evaluates ℓ(w*) on the very rows of each minibatch, "batches" on separate ones.
        reference_batches: how many separate minibatches make the reference; unused when paired.
        method: "sgld", "rmsprop" (SGLD preconditioned by RMSprop) or "sgnht" (stochastic-gradient Nosé–Hoover).
        warmup: steps over which the step size grows linearly to `lr`; 0 keeps it constant.
        alpha: rmsprop: share of the old mean square that each step keeps.
        eps: rmsprop: added to the root of the mean square.
        adapt: rmsprop: steps after which the preconditioner stays as it is; 0 lets it adapt to the end.
        friction: sgnht: the A of Ding et al. 2014, per unit of time √lr; 2√gamma damps the localisation critically.
        dtype: of weights and products.
        products: "exact", or "bf16_unembed": the frozen unembedding product in bfloat16, or "bf16": all products of
            frozen and moving weights; the chains' own state is in `dtype` always.
        backend: what runs the chains: "torch", "jax" or "devinterp".
        budget: the error that is asked for; None takes the chains as given.
        bias: "reported" beside the value, or "removed" from it.
    """

    lr: float
    nbeta: float
    gamma: float
    chains: int
    draws: int
    burn_in: int
    batch: int
    every: int = 1
    batches: str = "own"
    reference: str = "paired"
    reference_batches: int = 16
    method: str = "sgld"
    warmup: int = 0
    alpha: float = 0.99
    eps: float = 0.1
    adapt: int = 0
    friction: float = 1.0
    dtype: str = "float32"
    products: str = "exact"
    backend: str = "torch"
    budget: Budget | None = None
    bias: str = "reported"

    @property
    def steps(self) -> int:
        """Loss evaluations of one chain: the last draw needs no update after it."""
        return self.burn_in + (self.draws - 1) * self.every + 1

    @functools.cached_property
    def json(self) -> str:
        """Canonical JSON, as in `Task.json`; made once, for many tasks share a sampler."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def of(cls, fields: dict[str, Any]) -> "Sampler":
        """Build from decoded JSON; the inverse of `json`."""
        budget = fields.get("budget")
        return cls(**{**fields, "budget": budget and Budget(**budget)})


@dataclass(frozen=True)
class Task:
    """One number to measure: exactly what changes it, nothing else.

    Attributes:
        run: name of the training run.
        weights: content hash of the checkpoint.
        step: training step of the checkpoint.
        part: glob over the parameter names, as "L1H6".
        dataset: name of the token distribution.
        rows: content hash of its estimation rows.
        metric: what is measured, as "llc".
        seed: seed of minibatches and noise.
        sampler: options of the chains; None for metrics without chains.
        loss: what is averaged: "" for the cross-entropy of the rows' own next tokens; "kl:<hash>" or "ce:<hash>"
            against the next-token distribution of the checkpoint of that content; "module:function" of a user's own.
    """

    run: str
    weights: str
    step: int
    part: str
    dataset: str
    rows: str
    metric: str
    seed: int
    sampler: Sampler | None
    loss: str = ""

    @functools.cached_property
    def key(self) -> str:
        """Content address: 32 hexadecimal digits of the SHA-256 of the canonical JSON, VERSION included."""
        return hashlib.sha256(f"{VERSION}:{self.json()}".encode()).hexdigest()[:32]

    def json(self) -> str:
        """Canonical JSON: sorted names, no spaces, floats as Python prints them; without `loss` where that is ""."""
        # Written out, for a plan has hundreds of thousands: a general encoder takes seven times as long.
        loss = f'"loss":{_text(self.loss)},' if self.loss else ""  # results were stored before there was another
        sampler = "null" if self.sampler is None else self.sampler.json
        return (
            f'{{"dataset":{_text(self.dataset)},{loss}"metric":{_text(self.metric)},"part":{_text(self.part)},'
            f'"rows":{_text(self.rows)},"run":{_text(self.run)},"sampler":{sampler},"seed":{self.seed},'
            f'"step":{self.step},"weights":{_text(self.weights)}}}'
        )

    @classmethod
    def of(cls, fields: dict[str, Any]) -> "Task":
        """Build from decoded JSON; the inverse of `json`."""
        sampler = fields["sampler"]
        return cls(**{**fields, "sampler": sampler and Sampler.of(sampler)})


@dataclass(frozen=True)
class Estimate:
    """What was measured for one Task.

    Attributes:
        task: what was asked.
        value: the number (λ̂ in nats for "llc"); NaN when diverged.
        error: its standard error; NaN when unknown.
        chains_C: per-chain values.
        loss_CS: ℓ(w_t) − ℓ(w*) of every step of every chain (nats), burn-in included; empty for other metrics.
        health: ok, suspect, short or diverged.
        reason: why, in a few words; empty when ok.
        stats: further named numbers, such as `stein` and `drift` of the chains.
        seconds: wall time spent on it.
        code: version of the code that measured it.
        schema: version of the file format.
    """

    task: Task
    value: float
    error: float
    chains_C: NDArray[np.float64] = field(repr=False)
    loss_CS: NDArray[np.float32] = field(repr=False)
    health: str
    reason: str
    stats: dict[str, float]
    seconds: float
    code: str
    schema: int = SCHEMA

    @property
    def freedom(self) -> float:
        """Degrees of freedom of `error`; infinite where it comes from very many rows, as those of attention scores."""
        return self.stats.get("freedom", math.inf)

    def interval(self, coverage: float = 0.95) -> tuple[float, float]:
        """Both ends of an interval about the value: Student's t with `freedom` degrees, NaN when the error is unknown.

        It covers the sampler's own expectation, biases and all, with the given probability.
        """
        from rllc import intervals

        half = self.error * intervals.quantile(self.freedom, coverage)
        return self.value - half, self.value + half

    def __str__(self) -> str:
        """As a person says it: "llc of L1H6 on stdlib_code at step 1600: 0.603 ± 0.026, 95 % 0.542 to 0.664 (ok)"."""
        task = self.task
        low, high = self.interval()
        place = f" at step {task.step}" if task.step >= 0 else ""  # weights of no known step have −1
        what = f"{task.metric} of {task.part} on {task.dataset}{place}"
        number = f"{self.value:.3f} ± {self.error:.3f}, 95 % {low:.3f} to {high:.3f}"
        return f"{what}: {number} ({self.health}{self.reason and ', ' + self.reason})"

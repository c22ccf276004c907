"""What is measured: the grid of a sweep, what calibration tries, and a module of the user's."""

from dataclasses import dataclass
from typing import Literal

Metric = Literal[
    "llc", "hessian_trace", "hessian_xtrace", "fisher_trace", "hessian_rank",
    "zero_ablation", "mean_ablation", "resample_ablation", "path_patching",
    "prev_token", "current_token", "first_token", "prefix", "brackets",
    "q_composition", "k_composition", "v_composition",
    "induction_tokens", "bracket_tokens", "ngram_tokens", "skip_ngram_tokens", "other_tokens", "ngrams", "skip_ngrams",
    "icl", "bigram", "ngram_2", "ngram_3", "ngram_4",
]  # fmt: skip  # `rllc.measured` says of what each is measured


@dataclass(frozen=True)
class Grid:
    """The cells of the sweep: metrics × steps × parts × datasets × seeds.

    `steps` null takes every saved step; `parts` may hold "heads" (each head a part of its own), "mlps", "groups" and
    "layers" beside globs; `datasets` null takes all of `data`; `seeds` are those of the chains and of random probes.
    What a metric is measured of and on is in `rllc.measured`: all parts, those that are one head, pairs of these, or
    the whole model; the datasets, random sequences said twice, or the weights alone. `keep` names the parts whose
    excess loss is also kept token by token, see `rllc.kept`.
    """

    steps: list[int] | None
    parts: list[str]
    datasets: list[str] | None
    seeds: list[int]
    metrics: list[Metric]
    keep: list[str] | None = None


@dataclass(frozen=True)
class Calibrate:
    """What `rllc calibrate` tries, and what it takes for good; see `rllc.calibration`.

    Attributes:
        lr: step sizes ε; those that stand beside their half are compared with it.
        gamma: localisations γ.
        nbeta: inverse temperatures nβ.
        steps: checkpoints of the first run; null for the first, middle and last of grid.steps.
        parts: null for two of each of at most three layers, out of grid.parts.
        chains: of each cell.
        relaxations: kept length of a chain in relaxation times 2/(εγ).
        tolerance: relative bias of λ̂ that is accepted.
        signal: spread between parts over the error that is asked of the sweep.
        errors: other errors (nats) whose price is told.
    """

    lr: list[float]
    gamma: list[float]
    nbeta: list[float]
    steps: list[int] | None
    parts: list[str] | None
    chains: int
    relaxations: float
    tolerance: float
    signal: float
    errors: list[float]


@dataclass(frozen=True)
class Validate:
    """Which cases `rllc validate` measures: all, or the few that take seconds."""

    quick: bool


@dataclass(frozen=True)
class Module:
    """A torch module of the user's, by import paths "package.module:name"; see `rllc.modules`.

    Attributes:
        make: called without arguments, returns the module.
        loss: loss(module, batch) gives one number a sample, or their mean.
        data: datasets by name: tensors whose first axis is the samples, or what returns them.
    """

    make: str
    loss: str
    data: dict[str, str]

"""The resolved configuration as plain frozen dataclasses, and the checks that need no file."""

import dataclasses
import math
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from rllc.mistake import Mistake, unknown
from rllc.task import Sampler

Scaling = Literal["none", "global", "standardize", "minmax"]
Method = Literal["kmeans", "dtw_kmeans", "kshape", "ward"]
Stage = Literal["train", "plan", "launch", "gather", "cluster", "report"]


@dataclass(frozen=True)
class Model:
    """Shape of the attention-only transformer that `train` makes."""

    n_layers: int
    n_heads: int
    d_model: int
    d_head: int
    n_ctx: int
    d_vocab: int
    positions: Literal["shortformer", "learned"]


@dataclass(frozen=True)
class Schedule:
    """Which steps are saved: multiples of `every`, and `log` log-spaced ones; the first and the last always."""

    every: int
    log: int


@dataclass(frozen=True)
class Train:
    """AdamW training of one run for each of `seeds`.

    `repeats` is the share of training rows that are replaced by one real span tiled over the window.
    """

    data: str
    seeds: list[int]
    steps: int
    batch: int
    lr: float
    warmup: int
    betas: list[float]
    weight_decay: float
    clip: float
    repeats: float
    checkpoints: Schedule


@dataclass(frozen=True)
class Dataset:
    """One token distribution: where its text comes from and how many estimation rows it keeps.

    `source` is "stdlib" (parts: prose, code), "files" (path, text, where), or "mix" (of: other dataset names with
    weights). `where` keeps only documents whose nested field has the value, as `meta.pile_set_name == "Github"`.
    """

    source: Literal["stdlib", "files"]
    parts: dict[str, float] | None = None
    path: str | None = None
    text: str = "text"
    where: str | None = None
    limit: int | None = None
    pool: int = 1024


@dataclass(frozen=True)
class Grid:
    """The cells of the sweep: steps × parts × datasets × seeds.

    `steps` null takes every saved step; `parts` may hold "heads" (each head a part of its own) beside globs;
    `datasets` null takes all of `data`.
    """

    steps: list[int] | None
    parts: list[str]
    datasets: list[str] | None
    seeds: list[int]


@dataclass(frozen=True)
class Launch:
    """How the workers are started; free to change between resumptions."""

    kind: Literal["local"]
    workers: int | None
    threads: int


@dataclass(frozen=True)
class Primary:
    """The one clustering that is named before looking."""

    method: Method
    scaling: Scaling


@dataclass(frozen=True)
class Cluster:
    """How trajectories are grouped; see `rllc.cluster`."""

    methods: list[Method]
    scalings: list[Scaling]
    primary: Primary
    k: int | None
    k_range: list[int]
    per_layer: bool
    logx: bool
    fill: Literal["none", "interpolate"]
    n_init: int
    seed: int
    null_draws: int


@dataclass(frozen=True)
class Track:
    """Where runs are shown beside the local files."""

    kind: Literal["none", "wandb"]
    project: str
    entity: str | None
    mode: Literal["auto", "online", "offline"]
    traces: int


@dataclass(frozen=True)
class Report:
    """Choices of the report: the part whose loss traces are drawn (null: the last head)."""

    traces: str | None


@dataclass(frozen=True)
class Config:
    """Everything that was asked for, resolved."""

    name: str
    root: str
    run: str
    path: str | None
    stages: list[Stage] | None
    input: str | None
    model: Model
    train: Train
    data: dict[str, Dataset]
    grid: Grid
    sampler: Sampler
    launch: Launch
    cluster: Cluster
    track: Track
    report: Report

"""The resolved configuration as plain frozen dataclasses."""

from dataclasses import dataclass, field
from typing import Literal

from rllc.task import Sampler

Scaling = Literal["none", "global", "standardize", "minmax"]
Method = Literal["kmeans", "dtw_kmeans", "kshape", "ward"]
Stage = Literal["train", "plan", "launch", "gather", "cluster", "report"]
Metric = Literal["llc", "prev_token", "current_token", "prefix"]


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
class Labels:
    """Another model, whose next-token distribution q replaces the text's own next tokens.

    `checkpoint` is a file, or run@step of a run under root/runs; `kind` is "kl", KL(q‖p), or "ce", H(q, p).
    """

    checkpoint: str
    kind: Literal["kl", "ce"] = "kl"


@dataclass(frozen=True)
class Dataset:
    """One token distribution: where its text comes from and how many estimation rows it keeps.

    Attributes:
        source: "stdlib" is the standard library of the running Python, "files" the user's own text.
        mix: weights of "prose" and "code"; "stdlib" only.
        path: file or folder; "files" only.
        text: field of a record that holds the text.
        where: keeps only records with this value in a field, as `meta.pile_set_name == "Github"`; dots lead into
            nested fields, and a list has the value if it contains it.
        limit: takes the first documents only.
        pool: estimation rows kept at most.
        labels: the model whose predictions are the labels; null for the text's own next tokens.
    """

    source: Literal["stdlib", "files"]
    mix: dict[str, float] | None = None
    path: str | None = None
    text: str = "text"
    where: str | None = None
    limit: int | None = None
    pool: int = 1024
    labels: Labels | None = field(default=None, repr=False)  # nothing that is made from the text depends on it


@dataclass(frozen=True)
class Grid:
    """The cells of the sweep: metrics × steps × parts × datasets × seeds.

    `steps` null takes every saved step; `parts` may hold "heads" (each head a part of its own) beside globs;
    `datasets` null takes all of `data`; `seeds` are those of the chains. Scores of attention patterns are measured on
    the parts that are one head, and `prefix` on random sequences said twice instead of the datasets. `keep` names
    the parts whose excess loss is also kept token by token, see `rllc.kept`.
    """

    steps: list[int] | None
    parts: list[str]
    datasets: list[str] | None
    seeds: list[int]
    metrics: list[Metric]
    keep: list[str] | None = None


@dataclass(frozen=True)
class Launch:
    """How the workers are started; free to change between resumptions. `dry_run` tells the cost and starts nothing."""

    kind: Literal["local"]
    workers: int | None
    threads: int
    dry_run: bool = False


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
    """Where runs are shown beside the local files; `mode` "auto" is online where W&B finds credentials."""

    kind: Literal["none", "wandb"]
    project: str
    entity: str | None
    mode: Literal["auto", "online", "offline"]


@dataclass(frozen=True)
class Report:
    """Choices of the report: the part whose loss traces are drawn (null: the last head)."""

    traces: str | None


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


@dataclass(frozen=True)
class Config:
    """Everything that was asked for, resolved.

    Attributes:
        name: of the sweep; its folder is root/sweeps/name.
        root: folder that holds runs/, sweeps/ and data/.
        run: name of the training run; its folders are root/runs/run-s<seed>.
        path: folder of an existing run's checkpoints, which is then read instead of training one.
        stages: what `sweep` does; null for all, in order.
        module: what is measured in place of the attention model; `path` is then the folder of its state dicts.
        input: a long table of curves that rllc did not make, for `cluster` and `report`.
    """

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
    calibrate: Calibrate
    validate: Validate
    launch: Launch
    cluster: Cluster
    track: Track
    report: Report
    module: Module | None = None


def differences(found: object, wanted: object, key: str = "") -> list[str]:
    """Each leaf at which two nested dicts differ, as "sampler.lr 0.01, now 0.02"."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = dict.fromkeys([*found, *wanted])
        return [text for k in keys for text in differences(found.get(k), wanted.get(k), f"{key}.{k}".lstrip("."))]
    return [] if found == wanted else [f"{key} {found}, now {wanted}"]

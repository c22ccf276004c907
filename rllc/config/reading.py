"""How results are grouped, shown and drawn."""

from dataclasses import dataclass, field
from typing import Literal

Scaling = Literal["none", "global", "standardize", "minmax"]


Method = Literal["kmeans", "kmedoids", "soft_kmedoids", "dtw_kmeans", "kshape", "ward"]


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
    draws: int


@dataclass(frozen=True)
class Track:
    """Where runs are shown beside the local files; free to change at any time.

    Attributes:
        mode: "auto" is online where W&B finds credentials and its server answers.
        tags: of every W&B run, beside those that it gets by itself.
        machine: whether host, paths, user and the sections launch and track of the configuration are sent too.
        rebuild: `rllc track` makes new W&B runs from the gathered table, instead of following the sweep.
        quiet: seconds without a new result after which `rllc track` takes a sweep as ended, where nobody is known to
            work on it.
    """

    kind: Literal["none", "wandb"]
    project: str
    entity: str | None
    mode: Literal["auto", "online", "offline"]
    tags: list[str] = field(default_factory=list)
    machine: bool = False
    rebuild: bool = False
    quiet: float = 60.0


@dataclass(frozen=True)
class Report:
    """Choices of the report.

    Attributes:
        traces: the part whose loss traces are drawn; null for the last head.
        stages: training steps at which stages end; null to find them, [] for none.
    """

    traces: str | None
    stages: list[int] | None

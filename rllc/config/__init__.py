"""The resolved configuration as plain frozen dataclasses."""

from dataclasses import dataclass
from typing import Literal

from rllc.config.grid import Calibrate, Grid, Metric, Module, Validate
from rllc.config.launch import Launch, Local, Slurm
from rllc.config.model import Model, plain
from rllc.config.reading import Cluster, Method, Primary, Report, Scaling, Track
from rllc.config.run import Schedule, Source, Train
from rllc.config.text import Dataset, Labels
from rllc.task import Sampler

__all__ = [
    "Calibrate",
    "Cluster",
    "Config",
    "Dataset",
    "Grid",
    "Labels",
    "Launch",
    "Local",
    "Method",
    "Metric",
    "Model",
    "Module",
    "Primary",
    "Report",
    "Scaling",
    "Schedule",
    "Slurm",
    "Source",
    "Stage",
    "Track",
    "Train",
    "Validate",
    "differences",
    "plain",
]

Stage = Literal["train", "plan", "launch", "gather", "cluster", "report"]


@dataclass(frozen=True)
class Config:
    """Everything that was asked for, resolved.

    Attributes:
        name: of the sweep; its folder is root/sweeps/name.
        root: folder that holds runs/, sweeps/ and data/.
        run: name of the training run; its folders are root/runs/run-s<seed>.
        path: folder of an existing run's checkpoints, which is then read instead of training one.
        source: of runs that were made elsewhere, on the hub or in folders that do not describe themselves.
        stages: what `sweep` does; null for all, in order.
        module: what is measured in place of the attention model; `path` is then the folder of its state dicts.
        input: a long table of curves that rllc did not make, for `cluster` and `report`.
        merge: sweeps, by name or folder, that `gather` first makes into this one.
        devinterp: table of stores of devinterp 2.x that `gather` first reads into this one, see `rllc.devinterp_store`.
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
    source: Source | None = None
    merge: list[str] | None = None
    devinterp: str | None = None

    @property
    def elsewhere(self) -> bool:
        """Whether the runs were made elsewhere, so that nothing is trained."""
        return self.path is not None or self.source is not None


def differences(found: object, wanted: object, key: str = "") -> list[str]:
    """Each leaf at which two nested dicts differ, as "sampler.lr 0.01, now 0.02"."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = dict.fromkeys([*found, *wanted])
        return [text for k in keys for text in differences(found.get(k), wanted.get(k), f"{key}.{k}".lstrip("."))]
    return [] if found == wanted else [f"{key} {found}, now {wanted}"]

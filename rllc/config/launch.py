"""How the workers are started: on this machine, or by Slurm."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Local:
    """Workers as processes of this machine; free to change between resumptions.

    Attributes:
        workers: how many at once; null for one for each core that may be used, or each of `devices`.
        threads: of each worker.
        devices: ids of GPUs; each worker sees one of them, in turn. Null leaves the choice to the environment.
        attempts: starts of a task that kills its worker, before it is recorded as failed.
        dry_run: tells the cost and starts nothing.
    """

    kind: Literal["local"]
    workers: int | None
    threads: int
    devices: list[str] | None = None
    attempts: int = 3
    dry_run: bool = False


@dataclass(frozen=True)
class Slurm:
    """Workers in the elements of a Slurm job array; each key is explained in conf/launch/slurm.yaml.

    Keys that are null are not sent. `extra_sbatch` and `extra_gather` come last, so that they win.
    """

    kind: Literal["slurm"]
    shards: int
    running: int | None
    account: str | None
    partition: str | None
    qos: str | None
    constraint: str | None
    exclude: str | None
    nodelist: str | None
    reservation: str | None
    time: str | None
    gpus: int | None
    gres: str | None
    cpus: int
    mem: str | None
    signal_seconds: int
    requeue: bool
    max_requeues: int
    attempts: int
    workers_per_gpu: int
    job_name: str | None
    comment: str | None
    mail_user: str | None
    mail_type: str | None
    dependency: str | None
    setup: list[str]
    env: dict[str, str]
    container: str | None
    python: str | None
    srun: list[str] | None
    extra_sbatch: list[str]
    extra_gather: list[str]
    log_dir: str | None
    scratch: str | None
    max_array: int | None
    gather: bool
    track: bool
    snapshot: bool
    wait: bool
    dry_run: bool


Launch = Local | Slurm

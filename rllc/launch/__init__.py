"""How work is started: processes of this machine, or the elements of a Slurm job array; both start the same worker."""

from rllc.config import Launch, Local
from rllc.launch.local import sweep
from rllc.launch.processes import MALLOC, MKL, STOP_SECONDS, THREADS, run
from rllc.launch.size import cores, gpus, here, per_element, threads, workers

__all__ = [
    "MALLOC", "MKL", "STOP_SECONDS", "THREADS", "Launch", "Local", "cores", "gpus", "here", "per_element", "run",
    "sweep", "threads", "workers",
]  # fmt: skip

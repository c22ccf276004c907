"""How many workers run at once, and with how many threads."""

import os
import re
from pathlib import Path

from rllc.config import Launch, Local, Slurm


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus() -> bool:
    """Whether processes started here may see a GPU of NVIDIA's driver; loads nothing to find out."""
    return Path("/proc/driver/nvidia/gpus").is_dir() and os.environ.get("CUDA_VISIBLE_DEVICES") != ""


def workers(launch: Launch) -> int:
    """How many processes run at once."""
    if isinstance(launch, Slurm):
        return min(launch.running or launch.shards, launch.shards) * per_element(launch)
    return launch.workers or len(launch.devices or ()) or max(1, cores() // launch.threads)


def threads(launch: Launch) -> int:
    """Threads of each worker."""
    return launch.threads if isinstance(launch, Local) else max(1, launch.cpus // per_element(launch))


def per_element(launch: Slurm) -> int:
    """Workers of one element of the array: `workers_per_gpu` for each GPU, or as many without one."""
    return max(1, gpus_each(launch)) * launch.workers_per_gpu


def here(launch: Launch) -> Local:
    """How to start processes on this machine, whatever starts the workers of the sweep."""
    return launch if isinstance(launch, Local) else Local("local", None, 1)


def gpus_each(launch: Slurm) -> int:
    """GPUs of an element of the array, or of a node of a training."""
    if launch.gres is None:
        return launch.gpus or 0
    asked = re.findall(r"\bgpu(?::[^:,()]*[^:,()\d][^:,()]*)?(?::(\d+))?(?![^,(])", launch.gres)
    return sum(int(count or 1) for count in asked)

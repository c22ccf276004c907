"""The processes of one training on this machine, started by torchrun's library: when one ends early, all end."""

import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

POLL_SECONDS = 1.0
SAID = (1, 2, 75)  # codes of a process that has told why


def run(path: Path, count: int, *, parent: int | None = None) -> int:
    """Train with `count` processes of this machine, and tell in one sentence which was killed; the exit code."""
    logging.getLogger("torch").setLevel(logging.CRITICAL)  # its own words for the same
    if parent is not None:
        end_without(parent)
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=count, run_id=f"rllc-{os.getpid()}", rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0", local_addr="127.0.0.1", max_restarts=0,
    )  # fmt: skip
    words = ["-m", "rllc.train", str(path), f"--parent={os.getpid()}"]
    try:
        elastic_launch(config, sys.executable)(*words)
    except ChildFailedError as error:
        return _told(path, error.failures, count)
    except SignalException as stopped:
        return 128 + int(stopped.sigval)
    return 0


def end_without(parent: int) -> None:
    """End this process soon after its parent: one that waits for another rank looks at nothing itself."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _told(path: Path, failures: dict[int, ProcessFailure], count: int) -> int:
    """Say which process ended first unless it said so itself; the exit code."""
    ends = {index: failure.exitcode for index, failure in failures.items()}
    # The others were ended by SIGTERM, or by the loss of their connection.
    index = min(ends, key=lambda index: (ends[index] in SAID, ends[index] == -signal.SIGTERM, index))
    code = ends[index]
    if code in SAID:
        return code
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    print(
        f"rllc: {path}: process {index + 1} of {count} {how}, and the others were stopped; the same command goes on.",
        file=sys.stderr,
    )
    return 1

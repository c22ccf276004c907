"""Follows the jobs of a submission until they have ended, with a progress bar of the results."""

import time
from pathlib import Path

from rllc import progress, store
from rllc.launch import queue
from rllc.tail import Tail

POLL_SECONDS = 1.0
ASK_SECONDS = 10.0  # the controller serves everybody


def wait(sweep: Path, keys: set[str]) -> None:
    """Wait until no job of the sweep's submissions is queued or runs; `keys` are those of the plan."""
    cluster = queue.settings().cluster
    done = store.keys(sweep) & keys
    tail = Tail(sweep / "index")
    tail.skip()
    asked = 0.0
    with progress.bar("slurm") as show:
        while True:
            done |= {line["key"] for line in tail.new() if line["key"] in keys}
            show(len(done), len(keys))
            if time.monotonic() - asked >= ASK_SECONDS:
                asked = time.monotonic()
                queued = queue.jobs()
                if queued is not None and not queue.jobs_of(sweep, queued, cluster):
                    break
            time.sleep(POLL_SECONDS)
        show(len(store.keys(sweep) & keys), len(keys))

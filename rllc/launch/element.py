"""What an element of a Slurm array starts: a worker for each of its shards, told in time that the limit is near.

Run as `python -m rllc.launch.element SWEEP SHARD… --threads T --attempts N --grace S`: the workers share T threads and
the GPUs of CUDA_VISIBLE_DEVICES. SIGUSR1 tells them to end the task in hand; those that need more than S seconds for it
are stopped. Exit codes: 0 all is done, 1 something failed or diverged, 75 there is more to do, 143 stopped by SIGTERM.
"""

import argparse
import math
import os
import signal
import sys
import time
from pathlib import Path

from rllc.launch import crew


class _Told:
    """Passes a SIGUSR1 of this process on to the workers, and SIGTERM after `grace` seconds more."""

    def __init__(self, grace: float) -> None:
        self.grace = grace
        self.limit: float | None = None
        self.new = False
        signal.signal(signal.SIGUSR1, self._hear)

    def __call__(self) -> signal.Signals | None:
        if self.new:
            self.new = False
            return signal.SIGUSR1
        if self.limit is not None and time.monotonic() > self.limit:
            self.limit = math.inf  # once: a worker that is told again while it ends would not note how its task ended
            return signal.SIGTERM
        return None

    def _hear(self, *_: object) -> None:
        self.new = True
        self.limit = self.limit or time.monotonic() + self.grace


def main() -> int:
    """Parse the command line and run the workers of an element."""
    parser = argparse.ArgumentParser(prog="python -m rllc.launch.element", description=__doc__)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("shards", type=Path, nargs="+")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--attempts", type=int, default=3)
    parser.add_argument("--grace", type=float, default=60.0)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    told = _Told(options.grace)
    devices = [device for device in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]
    threads = max(1, options.threads // len(options.shards))
    code = crew.run(
        options.sweep, options.shards, threads=threads, attempts=options.attempts, watch=told, devices=devices
    )  # fmt: skip
    return 75 if code == 143 and told.limit is not None else code  # what it had to stop itself is more to do


if __name__ == "__main__":
    sys.exit(main())

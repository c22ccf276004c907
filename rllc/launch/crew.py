"""The workers of some shards, started again where one is killed: of the local launcher and of an element alike."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rllc.launch import processes
from rllc.launch.attempts import Attempts, beside


def run(
    sweep: Path,
    shards: Sequence[Path],
    *,
    threads: int,
    attempts: int,
    watch: Callable[[], signal.Signals | None],
    devices: Sequence[str] = (),
) -> int:
    """Work on each shard with a process of its own; the highest exit code. See `processes.run`.

    A worker that was killed is started again if it had begun a task: each task has only so many starts, so this ends.
    """
    begun = [0] * len(shards)

    def again(n: int) -> bool:
        before, begun[n] = begun[n], Attempts(beside(shards[n]), attempts).begun()
        return begun[n] > before

    commands = [
        [sys.executable, "-m", "rllc.work", str(sweep), f"--shard={shard}", f"--threads={threads}",
         f"--attempts={attempts}", f"--parent={os.getpid()}"]
        for shard in shards
    ]  # fmt: skip
    return processes.run(commands, threads=threads, at_once=len(shards), watch=watch, again=again, devices=devices)

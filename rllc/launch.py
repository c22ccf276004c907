"""Local processes: the workers of a sweep and the trainings of its runs, watched by this one."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rllc import plan, progress, store
from rllc.config import Launch
from rllc.plan import Cell

POLL_SECONDS = 0.2
STOP_SECONDS = 10.0
# Blocks of a few MB stay with the process instead of going back to the system after each product: 1.4–1.7 times
# faster on glibc; other allocators ignore it.
_MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "67108864",
}
# MKL's sums otherwise depend on where in memory an array happens to begin, and the last bits with them.
_MKL = {"MKL_CBWR": "AUTO"}
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers(launch: Launch) -> int:
    """How many processes run at once."""
    return launch.workers or max(1, cores() // launch.threads)


def sweep(folder: Path, cells: Sequence[Cell], launch: Launch, *, on_line: Callable[[dict[str, Any]], None]) -> int:
    """Run the workers of a sweep until all have ended; `on_line` is told each new line of their indexes.

    Returns the highest of their exit codes: 1 for a worker that was killed, too.
    """
    present = store.keys(folder) & {cell.task.key for cell in cells}
    done, total = len(present), len(cells)
    count = min(workers(launch), max(total - done, 1))
    commands = [
        [sys.executable, "-m", "rllc.work", str(folder), f"--cells={share.start}:{share.stop}",
         f"--threads={launch.threads}", f"--parent={os.getpid()}"]
        for share in plan.slices(cells, count, present)
    ]  # fmt: skip
    tail = _Tail(folder / "index")
    with progress.bar(f"sweep, {count} worker{'s' * (count > 1)}") as show:

        def watch() -> None:
            nonlocal done
            for line in tail.new():
                done += 1
                on_line(line)
            show(done, total)

        return run(commands, launch, at_once=count, watch=watch)


def run(commands: Sequence[Sequence[str]], launch: Launch, *, at_once: int, watch: Callable[[], None]) -> int:
    """Run commands, `at_once` at a time, calling `watch` several times a second; the highest exit code.

    Whatever ends this function early (Ctrl-C, SIGTERM, an exception) stops the processes first.
    """
    waiting, running, worst = list(commands), list[subprocess.Popen[bytes]](), 0
    with _stopping(running):
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(_start(waiting.pop(0), launch.threads))
            time.sleep(POLL_SECONDS)
            watch()
            for process in [process for process in running if process.poll() is not None]:
                running.remove(process)
                worst = max(worst, _exit_code(process))
        watch()
    return worst


def _start(command: Sequence[str], threads: int) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, so that Ctrl-C reaches only its parent."""
    xla = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen={str(threads > 1).lower()}".strip()
    environment = os.environ | _MALLOC | _MKL | dict.fromkeys(_THREADS, str(threads)) | {"XLA_FLAGS": xla}
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)


def _exit_code(process: subprocess.Popen[bytes]) -> int:
    code = process.returncode
    if code >= 0:
        return code
    print(f"rllc: a worker was killed by {signal.Signals(-code).name}; run the same command again.", file=sys.stderr)
    return 1


@contextmanager
def _stopping(running: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in running:
            process.terminate()
        limit = time.monotonic() + STOP_SECONDS
        for process in running:
            try:
                process.wait(max(0.0, limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class _Tail:
    """The lines that are appended to the files of a folder from now on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read = {file: file.stat().st_size for file in folder.glob("*.jsonl")}

    def new(self) -> Iterator[dict[str, Any]]:
        for file in sorted(self.folder.glob("*.jsonl")):
            with file.open("rb") as lines:
                lines.seek(self.read.get(file, 0))
                whole, _, _ = lines.read().rpartition(b"\n")
            if whole:
                self.read[file] = self.read.get(file, 0) + len(whole) + 1
                yield from store.parse(whole.split(b"\n"))

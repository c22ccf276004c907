"""Processes of this machine: so many at a time, started with the settings that make them fast and their sums alike."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

POLL_SECONDS = 0.2
STOP_SECONDS = 10.0
# Blocks of a few MB stay with the process instead of going back to the system after each product: 1.4–1.7 times
# faster on glibc; other allocators ignore it.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "67108864",
}
# MKL's sums otherwise depend on where in memory an array happens to begin, and the last bits with them.
MKL = {"MKL_CBWR": "AUTO"}
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
TRUE_CODES = (0, 1, 2, 75, 143)  # with which a process says how it ended; every other one says that it was killed

Process = subprocess.Popen[bytes]


def run(
    commands: Sequence[Sequence[str]],
    *,
    threads: int,
    at_once: int,
    watch: Callable[[], signal.Signals | None],
    again: Callable[[int], bool] = lambda _: False,
    devices: Sequence[str] = (),
) -> int:
    """Run commands, `at_once` at a time, calling `watch` several times a second; the highest exit code.

    Whatever ends this function early (Ctrl-C, SIGTERM, an exception) stops the processes first.

    Args:
        commands: words of each.
        threads: of each process.
        at_once: how many may run.
        watch: shows what is done. A signal that it returns is passed on to all processes; no further command is started
            then, which counts as code 75.
        again: whether the n-th command, whose process was killed, is to be started again.
        devices: ids of GPUs; the process in place i of those that run sees the i-th of them, counted round.
    """
    waiting, running, worst = list(range(len(commands))), dict[int, tuple[int, Process]](), 0
    free, told = list(range(at_once)), False
    with _stopping(running):
        while waiting or running:
            while waiting and free:
                place, n = free.pop(0), waiting.pop(0)
                running[place] = n, _start(commands[n], environment(threads) | _device(devices, place, at_once))
            time.sleep(POLL_SECONDS)
            if passed := watch():
                told, worst, waiting = True, max(worst, 75 if waiting else 0), []
                for _, process in running.values():
                    process.send_signal(passed)
            for place, (n, process) in [*running.items()]:
                if process.poll() is None:
                    continue
                del running[place]
                free = sorted([*free, place])
                if process.returncode not in TRUE_CODES and told:
                    worst = max(worst, 75)  # by the signal, if that came while the process was about to end
                elif process.returncode not in TRUE_CODES and again(n):
                    print(f"rllc: {_killed(process.returncode)}; started again with what is left.", file=sys.stderr)
                    waiting.insert(0, n)
                else:
                    worst = max(worst, _exit_code(process.returncode))
        watch()
    return worst


def environment(threads: int) -> dict[str, str]:
    """What a process of so many threads is started with."""
    flag = f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()}"
    flags = [word for word in os.environ.get("XLA_FLAGS", "").split() if word != flag]
    return os.environ | MALLOC | MKL | dict.fromkeys(THREADS, str(threads)) | {"XLA_FLAGS": " ".join([*flags, flag])}


def _device(devices: Sequence[str], place: int, at_once: int) -> dict[str, str]:
    """Lets the process in this place see one GPU, and take no more of its memory than it needs where others do too."""
    if not devices:
        return {}
    shared = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} if at_once > len(devices) else {}
    return {"CUDA_VISIBLE_DEVICES": devices[place % len(devices)], **shared}


def _start(command: Sequence[str], environment: dict[str, str]) -> Process:
    """Start a process in a session of its own, so that Ctrl-C reaches only its parent.

    SIGUSR1 is blocked in it until it listens, so that the signal ends nobody who is still starting.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _exit_code(code: int) -> int:
    if code in TRUE_CODES:
        return code
    print(f"rllc: {_killed(code)}; run the same command again.", file=sys.stderr)
    return 1


def _killed(code: int) -> str:
    return f"a worker was killed by {signal.Signals(-code).name}" if code < 0 else f"a worker ended with code {code}"


@contextmanager
def _stopping(running: dict[int, tuple[int, Process]]) -> Iterator[None]:
    try:
        yield
    finally:
        left = [process for _, process in running.values()]
        for process in left:
            process.terminate()
        limit = time.monotonic() + STOP_SECONDS
        for process in left:
            try:
                process.wait(max(0.0, limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

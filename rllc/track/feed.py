"""The sinks of a sweep: nowhere, or the W&B writer, a process of its own that can neither stall nor stop its parent."""

import dataclasses
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from rllc.track.points import Item

_DROPPED = ("WANDB_SERVICE", "WANDB_RESUME")  # they would tie the runs to another process or an older run


class Sink(Protocol):
    """Where points go."""

    @property
    def alive(self) -> bool:
        """Whether what is logged still goes anywhere."""

    def log(self, item: Item) -> None:
        """Take one item; never waits, never raises."""

    def close(self, seconds: float) -> bool:
        """Deliver what is left, within the time given; whether all of it arrived. Safe to call twice."""


class Nothing:
    """The sink of `track=none`."""

    alive = False

    def log(self, item: Item) -> None:
        """Drop it."""

    def close(self, seconds: float) -> bool:  # noqa: ARG002
        """Do nothing."""
        return True


class Feed:
    """Pipe to `python -m rllc.track.writer`.

    The pipe is never waited for: what it does not take stays here until the next call. The writer ends by itself when
    the pipe closes, so it completes its files even if this process is killed.
    """

    def __init__(self, sweep: Path, head: dict[str, object]) -> None:
        """Start the writer; `head` is the first line it reads."""
        self._pending = bytearray(json.dumps(head).encode() + b"\n")
        self._heard = b""
        self._writer = subprocess.Popen(
            [sys.executable, "-m", "rllc.track.writer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(sweep),
            start_new_session=True,  # a Ctrl-C is for the sweep; the writer ends after it
        )
        assert self._writer.stdin
        assert self._writer.stdout
        self._in, self._out = self._writer.stdin, self._writer.stdout
        os.set_blocking(self._in.fileno(), False)
        os.set_blocking(self._out.fileno(), False)
        self._push()

    @property
    def alive(self) -> bool:
        """Whether the writer runs."""
        self._hear()
        return self._writer.poll() is None

    def log(self, item: Item) -> None:
        """Hand one item to the writer, or keep it for the next call."""
        line = json.dumps({"kind": type(item).__name__, **dataclasses.asdict(item)}, default=_plain)
        self._pending += line.encode() + b"\n"
        self._push()
        self._hear()

    def close(self, seconds: float) -> bool:
        """Deliver the rest and wait for the writer; kill it when the time is over."""
        deadline = time.monotonic() + seconds
        while self._pending and time.monotonic() < deadline:
            select.select([], [self._in], [], 0.1)
            self._push()
        if not self._in.closed:
            self._in.close()
        try:
            self._writer.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._writer.kill()
            self._writer.wait()
            warn(f"W&B did not finish in {seconds:.0f} s and was stopped; `rllc track` writes it again.")
        if not self._out.closed:
            self._hear()
            self._out.close()
        return self._writer.returncode == 0

    def _push(self) -> None:
        if self._writer.poll() is not None:  # it gave up and has said why
            self._pending.clear()
        try:
            while self._pending:
                del self._pending[: os.write(self._in.fileno(), self._pending[:65536])]
        except BlockingIOError:
            return
        except BrokenPipeError:  # it is giving up
            self._pending.clear()

    def _hear(self) -> None:
        while not self._out.closed and (said := self._out.read()):
            self._heard += said
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            warn(line.decode())


def warn(sentence: str) -> None:
    """Print one line about tracking beside the results."""
    print(f"track: {sentence}", file=sys.stderr, flush=True)


def _plain(value: Any) -> Any:
    return value.tolist()  # numpy scalars and arrays


def _environment(sweep: Path) -> dict[str, str]:
    """Environment of the writer: one core, all its files beside the sweep, nothing sent about the program itself.

    W&B sends the path where it stages an artifact's files, and an offline run needs that path to be synced. The writer
    works in the sweep's folder, so that the path can be told from there: it names no folder of this machine, and holds
    wherever the sweep is moved to.
    """
    kept = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    here = Path("/proc/self/cwd")
    places = {
        "WANDB_DATA_DIR": str((here if here.exists() else sweep) / "wandb" / "data"),
        "WANDB_CACHE_DIR": str(sweep / "wandb" / "cache"),
    }
    return {**kept, **places, "GOMAXPROCS": "1", "OMP_NUM_THREADS": "1", "WANDB_ERROR_REPORTING": "false"}

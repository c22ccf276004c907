"""Whose turn it is to write the W&B runs of a sweep, and under which number: sweeps/<sweep>/wandb/turn.json.

The newest writer has the turn; one before it finds that out and stops. No clock is compared and no marker of a dead
process is ever in the way.
"""

import dataclasses
import json
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rllc import atomic

CHECK_SECONDS = 1.0


class Displaced(Exception):
    """Another process has taken over."""


@dataclass(frozen=True)
class Turn:
    """What the file says.

    Attributes:
        number: end of the ids of the W&B runs.
        mode: online or offline.
        plan: hash of what is planned; empty before it is known.
        final: the runs hold what cannot be written again in the same place: steps with holes, or the end.
        sweep: random name of this folder, so that sweeps of one name elsewhere have other W&B runs.
        owner: random name of the writer.
    """

    number: int
    mode: Literal["online", "offline"]
    plan: str = ""
    final: bool = False
    sweep: str = ""
    owner: str = ""


@dataclass
class Turns:
    """The turn of this writer, and the file that says so."""

    file: Path
    mine: Turn
    checked: float = field(default_factory=time.monotonic)

    def plan(self, digest: str) -> None:
        """Learn what is planned: the runs of another plan are left, and new ones begun under the next number."""
        moved = self.mine.plan not in ("", digest)
        self._write(dataclasses.replace(self.mine, plan=digest, number=self.mine.number + moved))

    def end(self) -> None:
        """Note that the runs hold what only new ones could replace."""
        if not self.mine.final:
            self._write(dataclasses.replace(self.mine, final=True))

    def check(self, seconds: float = CHECK_SECONDS) -> None:
        """Raise Displaced if another writer has taken over; reads the file at most once in so many seconds."""
        if time.monotonic() - self.checked >= seconds:
            self.checked = time.monotonic()
            found = read(self.file)
            if found is not None and found.owner != self.mine.owner:
                raise Displaced("another process writes the W&B runs of this sweep from here on")

    def _write(self, turn: Turn) -> None:
        self.check(0.0)
        self.mine = turn
        _put(self.file, turn)


def take(folder: Path, mode: Literal["online", "offline"], *, again: bool = False) -> Turns:
    """Take the turn: go on with online runs that were left unfinished, or begin new ones under the next number.

    Runs written offline cannot be resumed, and are written anew; so are all if `again`.
    """
    before = read(folder / "turn.json") or Turn(0, mode, final=True, sweep=secrets.token_hex(8))
    fresh = again or before.final or not before.mode == mode == "online"
    mine = Turn(before.number + 1, mode, sweep=before.sweep) if fresh else before
    mine = dataclasses.replace(mine, owner=secrets.token_hex(8))
    _put(folder / "turn.json", mine)
    return Turns(folder / "turn.json", mine)


def read(file: Path) -> Turn | None:
    """Read the turn; None where there is none, or a damaged one."""
    try:
        return Turn(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _put(file: Path, turn: Turn) -> None:
    atomic.write_text(file, json.dumps(dataclasses.asdict(turn)) + "\n")

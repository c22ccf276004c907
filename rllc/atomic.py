"""Files that are either whole or absent, and the exclusive marker of whoever works in a folder."""

import errno
import hashlib
import json
import os
import re
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from rllc.mistake import Mistake

FULL = (errno.ENOSPC, errno.EDQUOT)  # what the system says of a full disk
REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)  # and of a place that is not the user's
_WRITER = re.compile(r"\.(?P<host>\w+)-(?P<boot>\w+)\.(?P<pid>\d+)-(?P<started>\w*)\.\w+\.tmp$")  # see _temporary


@contextmanager
def replace(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file in the folder of `path` (made if missing) and move it to `path` when the block succeeds.

    A crash, a kill or a full disk leaves `path` as it was. Of two processes writing at once the last one wins, and a
    reader sees one of the two whole files.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text, whole or not at all."""
    with replace(path) as file:
        file.write(text.encode())


def write(path: Path, fill: Callable[[Path], object]) -> None:
    """Let `fill` write the temporary file by its path, for libraries that take no open file."""
    with replace(path) as file:
        fill(Path(file.name))


def leftovers(folder: Path) -> Iterator[Path]:
    """Temporary files in a folder whose writer is surely dead: it ran on this host, and no longer does.

    Those of other hosts and containers are not given: nothing tells whether their writers run.
    """
    here = _place()
    with os.scandir(folder) as entries:
        for entry in entries:
            if not (writer := _WRITER.search(entry.name)) or writer["host"] != here[0]:
                continue
            if writer["boot"] != here[1] or _started(int(writer["pid"])) != writer["started"]:
                yield Path(entry.path)


@contextmanager
def owner(folder: Path, what: str) -> Iterator[None]:
    """Hold the exclusive marker `folder/owner.json` while working in the folder.

    A marker left by a process that no longer runs on this host (or by an earlier boot of it) is taken over.

    Raises:
        Mistake: another process holds it, or the folder cannot be written.
    """
    marker = folder / "owner.json"
    mine = {**_here(), "pid": os.getpid(), "started": _started(os.getpid())}
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while not _create(marker, json.dumps(mine)):
            held = _read(marker)
            if held is not None and not _dead(held, mine):
                raise Mistake(
                    f"{what}: {folder} is in use by process {held['pid']} on {held['host']}; "
                    f"wait for it, or remove {marker} if that process is gone."
                )
            _take_away(marker, held)
    except OSError as error:
        if error.errno in FULL:
            raise
        raise Mistake(
            f"{what}: {folder} cannot be written ({error.strerror}); choose another root= or name=."
        ) from None
    try:
        yield
    finally:
        if _read(marker) == mine:
            marker.unlink(missing_ok=True)
        if new:
            with suppress(OSError):  # it stays where something was made in it
                folder.rmdir()


def owned(folder: Path) -> bool:
    """Whether a process that runs, as far as can be known, holds the marker of the folder."""
    held = _read(folder / "owner.json")
    return held is not None and not _dead(held, _here())


def _temporary(path: Path) -> Path:
    """A name that no other writer takes and that tells who made it."""
    pid = os.getpid()
    writer = f"{'-'.join(_place())}.{pid}-{_started(pid)}"
    return path.with_name(f".{path.name}.{writer}.{secrets.token_hex(4)}.tmp")


def _place() -> tuple[str, str]:
    """This host, with the namespace of process numbers, and its boot, each as eight digits."""
    namespace = Path("/proc/self/ns/pid")  # of a container: its numbers say nothing outside of it
    host = f"{socket.gethostname()} {namespace.readlink() if namespace.exists() else ''}"
    first, second = (hashlib.sha256(name.encode()).hexdigest()[:8] for name in (host, _boot()))
    return first, second


def _here() -> dict[str, Any]:
    """Where this process runs: its numbers say nothing outside of the space, a container's or the host's."""
    return {"host": socket.gethostname(), "space": _place()[0], "boot": _boot()}


def _create(marker: Path, text: str) -> bool:
    """Create the marker with its content in one step: a link to a finished file fails where the name exists."""
    temporary = _temporary(marker)
    try:
        temporary.write_text(text)
        os.link(temporary, marker)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _take_away(marker: Path, held: dict[str, Any] | None) -> None:
    """Remove a dead owner's marker; of several that try, rename lets one win, and a live marker is put back."""
    aside = marker.with_name(f".owner.{os.getpid()}.dead")
    with suppress(FileNotFoundError):
        marker.rename(aside)
        if _read(aside) != held:
            with suppress(FileExistsError):
                os.link(aside, marker)
        aside.unlink()


def _read(marker: Path) -> dict[str, Any] | None:
    try:
        held = json.loads(marker.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return held if isinstance(held, dict) else None


def _dead(held: dict[str, Any], mine: dict[str, Any]) -> bool:
    if held.get("host") != mine["host"]:
        return False
    if held.get("boot") != mine["boot"]:
        return True
    here = held.get("space", mine["space"]) == mine["space"]
    return here and _started(int(held.get("pid", 0))) != held.get("started")


def _boot() -> str:
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else ""


def _started(pid: int) -> str:
    """What tells a process from a later one with the same number: its start time since boot; "" when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "" if not _alive(pid) else "running"
    return "" if fields[0] == "Z" else fields[19]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

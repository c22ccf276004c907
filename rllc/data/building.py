"""One process builds a set of rows, the others wait for it; a builder that died is replaced."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from rllc import atomic
from rllc.mistake import Mistake

BEAT = 5.0  # seconds between two signs of life
SILENCE = 60.0  # seconds without one, by the waiter's own clock, after which a builder is taken for dead
POLL = 0.2
_REFUSALS = 50  # attempts in a row that no other builder explains


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the marker in `folder` while building; wait while another process that lives holds it.

    A dead process of this machine is known at once. One of another machine is dead when the sign of life that it
    writes has not changed for SILENCE seconds; it is then left where it is and the rows are built beside it, which does
    no harm: equal rows make equal files, each written whole.

    Raises:
        Mistake: the folder cannot be written.
    """
    pulse, refusals = folder / "pulse", 0
    with ExitStack() as stack:
        seen, since = _read(pulse), time.monotonic()
        while True:
            try:
                stack.enter_context(atomic.owner(folder, "root"))
                stack.enter_context(_beating(pulse))
                break
            except Mistake:
                if not folder.parent.is_dir() or refusals == _REFUSALS:
                    raise
                refusals = 0 if atomic.owned(folder) else refusals + 1
            if _read(pulse) != seen:
                seen, since = _read(pulse), time.monotonic()
            if time.monotonic() - since > SILENCE:
                break
            time.sleep(POLL)
        yield
    with suppress(OSError):  # another one waits in it
        folder.rmdir()


@contextmanager
def _beating(pulse: Path) -> Iterator[None]:
    """Write another number into the file every BEAT seconds until the block ends."""
    ended = threading.Event()

    def beat() -> None:
        count = 0
        while not ended.is_set():
            with suppress(OSError):  # a full disk is the builder's to tell
                pulse.write_text(str(count))
            count += 1
            ended.wait(BEAT)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        pulse.unlink(missing_ok=True)


def _read(pulse: Path) -> str:
    try:
        return pulse.read_text()
    except OSError:
        return ""

"""Completes W&B runs: waits for a server that answers, not for one that is gone, and looks at what is on the disk."""

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib import error, request

from rllc.track import journal, secrets

GONE = 4.0  # seconds without an answer after which a server is given up
WRITTEN = 2.0  # seconds from the end of a run to the end of its file, which W&B does not wait for


class Gone(Exception):
    """A server does not answer."""

    def __init__(self, url: str) -> None:
        super().__init__(f"{secrets.hide(url)} does not answer")


def end(runs: Mapping[Any, int]) -> list[str]:
    """Complete W&B runs at once; returns what went wrong, each once.

    Args:
        runs: each run and how many rows it was given.
    """
    faults: set[str] = set()
    threads = [threading.Thread(target=_finish, args=(run, faults), daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    urls = {run.settings.base_url for run in runs if not run.offline}
    answered = time.monotonic()
    while any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(1.0 / len(threads))
        if all(answers(url) for url in urls):
            answered = time.monotonic()
        elif time.monotonic() - answered > GONE:
            faults |= {str(Gone(url)) for url in urls}
            break
    deadline = time.monotonic() + WRITTEN
    lacking = {fault for run, logged in runs.items() if (fault := _lacking(run, logged, deadline))}
    return [*sorted(faults), *sorted(lacking)]


def reachable(url: str) -> bool:
    """Whether a server answers, at the second try at the latest."""
    return answers(url) or answers(url)


def answers(url: str, seconds: float = 2.0) -> bool:
    """Whether a server says anything at all, through the proxies of the environment where there are some."""
    try:
        with request.urlopen(request.Request(url, method="HEAD"), timeout=seconds):
            return True
    except error.HTTPError:
        return True
    except (OSError, ValueError) as fault:  # a certificate that only W&B is told to trust is an answer too
        return "CERTIFICATE" in str(fault)


def _finish(run: Any, faults: set[str]) -> None:
    try:
        run.finish()
    except Exception as raised:  # whatever W&B raises ends the tracking only
        faults.add(secrets.sentence(raised))


def _lacking(run: Any, logged: int, deadline: float) -> str:
    """What is not on the disk by then though it was logged."""
    path = Path(run.settings.sync_file)
    kept = journal.rows(path)
    while kept < logged and time.monotonic() < deadline:
        time.sleep(0.1)
        kept = journal.rows(path)
    return f"only {kept} of {logged} rows are on the disk" if kept < logged else ""

import os
import pty
import re
import subprocess
import sys

import pytest

from rllc import progress


class Clock:
    """Seconds that pass only when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_lines_come_every_few_seconds_and_at_the_end(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.bar("chains") as show:
        for done in range(0, 101):
            show(done, 100)
            clock.now += 0.25
    assert capsys.readouterr().err.splitlines() == [
        "chains: 20/100, 4/s, 0:20 left",
        "chains: 40/100, 4/s, 0:15 left",
        "chains: 60/100, 4/s, 0:10 left",
        "chains: 80/100, 4/s, 0:05 left",
        "chains: 100/100, 4/s",
    ]


def test_the_rate_counts_only_what_was_done_here(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.bar("chains") as show:
        show(90, 100)
        clock.now += 10
        show(95, 100)
        show(100, 100)
    assert capsys.readouterr().err.splitlines()[0] == "chains: 95/100, 0.5/s, 0:10 left"


@pytest.mark.parametrize("fault", [None, KeyboardInterrupt])
def test_the_last_line_comes_though_not_all_was_done(
    fault: type[BaseException] | None, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        with progress.bar("chains") as show:
            show(0, 10)
            clock.now += 1
            show(4, 10)
            if fault:
                raise fault

    if fault:
        with pytest.raises(fault):
            work()
    else:
        work()
    assert capsys.readouterr().err == "chains: 4/10, 4/s, 0:02 left\n"


def test_the_end_is_said_once(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.bar("chains") as show:
        for _ in range(3):
            clock.now += 1
            show(10, 10)
    assert capsys.readouterr().err == "chains: 10/10, 0/s\n"


def test_nothing_is_said_of_work_that_did_not_begin(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.bar("chains"):
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (59.6, "1:00"), (61, "1:01"), (3599, "59:59"), (3600, "1:00:00"), (90061, "25:01:01")],
)
def test_clock(seconds: float, text: str) -> None:
    assert progress.clock(seconds) == text


def on_a_terminal(code: str) -> str:
    """What a program writes to a terminal of 100 columns."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code], stderr=follower, stdout=follower, env=environment
    ) as process:
        os.close(follower)
        written = b""
        while True:
            try:
                block = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not block:
                break
            written += block
    os.close(leader)
    assert process.returncode == 0, written.decode()
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written.decode())


def test_a_terminal_shows_count_rate_and_time_left() -> None:
    shown = on_a_terminal(
        "import time\nfrom rllc import progress\n"
        "with progress.bar('chains') as show:\n"
        "    show(0, 40)\n    time.sleep(0.3)\n"
        "    for done in range(1, 31):\n        show(done, 40)\n        time.sleep(0.02)\n"
    )
    assert re.search(r"chains .*30/40 [\d.]+/s 0:00:0\d", shown)
    assert "–/s" in shown

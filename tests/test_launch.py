import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny import alive, until

from rllc import launch
from rllc.config import Launch

LOCAL = Launch(kind="local", workers=2, threads=1)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def nothing() -> None:
    pass


@pytest.mark.parametrize(("workers", "threads", "at_once"), [(3, 1, 3), (None, 1, 8), (None, 3, 2), (None, 99, 1)])
def test_workers_fill_the_cores(
    workers: int | None, threads: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "cores", lambda: 8)
    assert launch.workers(Launch("local", workers, threads)) == at_once


@pytest.mark.parametrize(("codes", "worst"), [([], 0), ([0, 0], 0), ([0, 1, 0], 1), ([0, 1, 75], 75)])
def test_the_highest_code_is_given(codes: list[int], worst: int) -> None:
    commands = [python(f"raise SystemExit({code})") for code in codes]
    assert launch.run(commands, LOCAL, at_once=2, watch=nothing) == worst


def test_a_killed_process_is_told_and_counts_as_failed(capfd: pytest.CaptureFixture[str]) -> None:
    commands = [python("import os; os.kill(os.getpid(), 9)"), python("pass")]
    assert launch.run(commands, LOCAL, at_once=2, watch=nothing) == 1
    assert capfd.readouterr().err == "rllc: a worker was killed by SIGKILL; run the same command again.\n"


def test_no_more_run_at_once_than_may(tmp_path: Path) -> None:
    code = f"""
import os, pathlib, time
here = pathlib.Path({str(tmp_path)!r})
mark = here / f"{{os.getpid()}}.running"
mark.touch()
(here / f"{{os.getpid()}}.seen").write_text(str(len(list(here.glob("*.running")))))
time.sleep(0.3)
mark.unlink()
"""
    launch.run([python(code)] * 5, LOCAL, at_once=2, watch=nothing)
    assert [int(file.read_text()) <= 2 for file in tmp_path.glob("*.seen")] == [True] * 5


def test_processes_have_their_threads_and_no_terminal(tmp_path: Path) -> None:
    code = f"""
import os, pathlib, sys
said = [os.environ["OMP_NUM_THREADS"], repr(sys.stdin.read()), str(os.getsid(0) == os.getpid())]
pathlib.Path({str(tmp_path)!r}, "said").write_text(" ".join(said))
"""
    launch.run([python(code)], Launch("local", 1, 3), at_once=1, watch=nothing)
    assert (tmp_path / "said").read_text() == "3 '' True"


@pytest.mark.parametrize("fault", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_whatever_ends_the_watch_stops_the_processes(fault: type[BaseException], tmp_path: Path) -> None:
    code = (
        f"import os, pathlib, time; pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch(); time.sleep(60)"
    )  # fmt: skip

    def watch() -> None:
        if len(list(tmp_path.iterdir())) == 2:
            raise fault

    with pytest.raises(fault):
        launch.run([python(code)] * 3, LOCAL, at_once=2, watch=watch)
    assert time.time() - max(file.stat().st_mtime for file in tmp_path.iterdir()) < launch.STOP_SECONDS / 2
    pids = [int(file.name) for file in tmp_path.iterdir()]
    assert len(pids) == 2
    assert alive(pids) == []


def test_a_process_that_will_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "STOP_SECONDS", 0.2)
    code = (
        "import os, pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch(); time.sleep(60)"
    )

    def watch() -> None:
        if list(tmp_path.iterdir()):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch.run([python(code)], LOCAL, at_once=1, watch=watch)
    (pid,) = [int(file.name) for file in tmp_path.iterdir()]
    until(lambda: alive([pid]) == [], seconds=5)


def test_a_signal_of_the_terminal_reaches_the_parent_alone(tmp_path: Path) -> None:
    code = f"""
import pathlib
from rllc import launch
from rllc.config import Launch
child = "import os, pathlib, time; pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch(); time.sleep(60)"
import sys
try:
    launch.run([[sys.executable, "-c", child]], Launch("local", 1, 1), at_once=1, watch=lambda: None)
except KeyboardInterrupt:
    print("stopped")
"""
    with subprocess.Popen(python(code), stdout=subprocess.PIPE, start_new_session=True, text=True) as parent:
        until(lambda: list(tmp_path.iterdir()), seconds=30)
        time.sleep(0.3)
        os.killpg(parent.pid, signal.SIGINT)
        out, _ = parent.communicate(timeout=30)
    assert out == "stopped\n"
    assert alive([int(file.name) for file in tmp_path.iterdir()]) == []


def test_new_lines_of_the_indexes_are_read_once_and_whole(tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text('{"key": "before"}\n')
    tail = launch._Tail(tmp_path)
    assert list(tail.new()) == []
    with (tmp_path / "old.jsonl").open("a") as file:
        file.write('{"key": "a"}\n{"ke')
    (tmp_path / "new.jsonl").write_text('{"key": "b"}\n')
    assert sorted(line["key"] for line in tail.new()) == ["a", "b"]
    assert list(tail.new()) == []
    with (tmp_path / "old.jsonl").open("a") as file:
        file.write('y": "c"}\n{"torn\n{"key": "d"}\n')
    assert [line["key"] for line in tail.new()] == ["c", "d"]

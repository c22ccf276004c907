import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny import alive, until

from rllc import launch
from rllc.config import Local
from rllc.launch import processes, size


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def nothing() -> None:
    pass


@pytest.mark.parametrize(("workers", "threads", "at_once"), [(3, 1, 3), (None, 1, 8), (None, 3, 2), (None, 99, 1)])
def test_workers_fill_the_cores(
    workers: int | None, threads: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size, "cores", lambda: 8)
    assert launch.workers(Local("local", workers, threads)) == at_once


@pytest.mark.parametrize(("codes", "worst"), [([], 0), ([0, 0], 0), ([0, 1, 0], 1), ([0, 1, 75], 75)])
def test_the_highest_code_is_given(codes: list[int], worst: int) -> None:
    commands = [python(f"raise SystemExit({code})") for code in codes]
    assert launch.run(commands, threads=1, at_once=2, watch=nothing) == worst


def test_a_killed_process_is_told_and_counts_as_failed(capfd: pytest.CaptureFixture[str]) -> None:
    commands = [python("import os; os.kill(os.getpid(), 9)"), python("pass")]
    assert launch.run(commands, threads=1, at_once=2, watch=nothing) == 1
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
    launch.run([python(code)] * 5, threads=1, at_once=2, watch=nothing)
    assert [int(file.read_text()) <= 2 for file in tmp_path.glob("*.seen")] == [True] * 5


def test_processes_have_their_threads_and_no_terminal(tmp_path: Path) -> None:
    code = f"""
import os, pathlib, sys
said = [os.environ["OMP_NUM_THREADS"], repr(sys.stdin.read()), str(os.getsid(0) == os.getpid())]
pathlib.Path({str(tmp_path)!r}, "said").write_text(" ".join(said))
"""
    launch.run([python(code)], threads=3, at_once=1, watch=nothing)
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
        launch.run([python(code)] * 3, threads=1, at_once=2, watch=watch)
    assert time.time() - max(file.stat().st_mtime for file in tmp_path.iterdir()) < launch.STOP_SECONDS / 2
    pids = [int(file.name) for file in tmp_path.iterdir()]
    assert len(pids) == 2
    assert alive(pids) == []


def test_a_process_that_will_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "STOP_SECONDS", 0.2)
    code = (
        "import os, pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch(); time.sleep(60)"
    )

    def watch() -> None:
        if list(tmp_path.iterdir()):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch.run([python(code)], threads=1, at_once=1, watch=watch)
    (pid,) = [int(file.name) for file in tmp_path.iterdir()]
    until(lambda: alive([pid]) == [], seconds=5)


def test_a_signal_of_the_terminal_reaches_the_parent_alone(tmp_path: Path) -> None:
    code = f"""
import pathlib
from rllc import launch
child = "import os, pathlib, time; pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch(); time.sleep(60)"
import sys
try:
    launch.run([[sys.executable, "-c", child]], threads=1, at_once=1, watch=lambda: None)
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


@pytest.mark.parametrize(
    ("end", "told"),
    [("os.kill(os.getpid(), 9)", "a worker was killed by SIGKILL"), ("os._exit(9)", "a worker ended with code 9")],
)
def test_what_was_killed_is_started_again_as_often_as_is_said(
    end: str, told: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = f"import os, pathlib; pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch(); {end}"
    asked = []

    def again(n: int) -> bool:
        asked.append(n)
        return len(asked) < 3

    assert launch.run([python("pass"), python(code)], threads=1, at_once=1, watch=nothing, again=again) == 1
    assert asked == [1, 1, 1]
    assert len(list(tmp_path.iterdir())) == 3
    assert capfd.readouterr().err.splitlines() == [
        *[f"rllc: {told}; started again with what is left."] * 2, f"rllc: {told}; run the same command again."
    ]  # fmt: skip


@pytest.mark.parametrize("code", [0, 1, 2, 75, 143])
def test_what_says_itself_how_it_ended_is_not_started_again(code: int) -> None:
    command = python(f"raise SystemExit({code})")
    assert launch.run([command], threads=1, at_once=1, watch=nothing, again=lambda _: True) == code


def test_each_process_sees_one_device_in_turn(tmp_path: Path) -> None:
    code = f"""
import os, pathlib, time
said = os.environ["CUDA_VISIBLE_DEVICES"], os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "")
pathlib.Path({str(tmp_path)!r}, str(os.getpid())).write_text(" ".join(said))
time.sleep(1)
"""

    def seen(at_once: int, devices: list[str]) -> list[str]:
        launch.run([python(code)] * at_once, threads=1, at_once=at_once, watch=nothing, devices=devices)
        said = sorted(file.read_text() for file in tmp_path.iterdir())
        for file in tmp_path.iterdir():
            file.unlink()
        return said

    assert seen(2, ["3", "MIG-7"]) == ["3 ", "MIG-7 "]
    assert seen(3, ["3", "5"]) == ["3 false", "3 false", "5 false"]


def test_a_signal_is_passed_on_and_nothing_more_is_started(tmp_path: Path) -> None:
    code = f"""
import os, pathlib, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))
signal.pthread_sigmask(signal.SIG_UNBLOCK, {{signal.SIGUSR1}})
pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch()
time.sleep(60)
"""
    passed: list[signal.Signals] = []

    def told() -> signal.Signals | None:
        if passed or len(list(tmp_path.iterdir())) < 2:
            return None
        passed.append(signal.SIGUSR1)
        return signal.SIGUSR1

    assert launch.run([python(code)] * 3, threads=1, at_once=2, watch=told) == 75
    assert len(list(tmp_path.iterdir())) == 2


def test_a_signal_waits_for_whoever_is_still_starting(tmp_path: Path) -> None:
    """The process listens after a second; the signal that came before is heard then, and has not ended it."""
    code = f"""
import pathlib, signal, sys, time
pathlib.Path({str(tmp_path)!r}, "starting").touch()
time.sleep(1)
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(1))
signal.pthread_sigmask(signal.SIG_UNBLOCK, {{signal.SIGUSR1}})
time.sleep(5)
"""
    passed: list[signal.Signals] = []

    def told() -> signal.Signals | None:
        if passed or not list(tmp_path.iterdir()):
            return None
        passed.append(signal.SIGUSR1)
        return signal.SIGUSR1

    assert launch.run([python(code)], threads=1, at_once=1, watch=told) == 1
    assert signal.SIGUSR1 not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_what_a_signal_kills_is_not_started_again(tmp_path: Path) -> None:
    """A process that is about to end no longer listens; it is more to do, not a failure."""
    code = f"import pathlib, os, time; pathlib.Path('{tmp_path}', str(os.getpid())).touch(); time.sleep(60)"

    def told() -> signal.Signals | None:
        return signal.SIGKILL if any(tmp_path.iterdir()) else None

    assert launch.run([python(code)], threads=1, at_once=1, watch=told, again=lambda _: True) == 75
    assert len([*tmp_path.iterdir()]) == 1

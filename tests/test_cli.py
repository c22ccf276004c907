import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from rllc import cli, composition
from rllc.mistake import Mistake, Unfinished

COMMAND = [sys.executable, "-c", "import sys; from rllc.cli import main; sys.exit(main())"]


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run a verb that ends in some way."""

    def run(end: BaseException | int) -> int:
        def act(*_: object) -> int:
            if isinstance(end, BaseException):
                raise end
            return end

        monkeypatch.setattr(sys, "argv", ["rllc", "sweep"])
        monkeypatch.setattr(composition, "run", act)
        return cli.main()

    return run


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        (0, 0, ""),
        (1, 1, ""),
        (Mistake("key: value"), 2, "rllc: key: value\n"),
        (Unfinished("not done"), 1, "rllc: not done\n"),
        (KeyboardInterrupt(), 130, "\nrllc: stopped; the same command goes on from here.\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "/x/y"), 1,
            "rllc: /x/y: No space left on device; make room and run it again.\n",
        ),
        (OSError(errno.EDQUOT, "Quota"), 1, "rllc: disk: Quota; make room and run it again.\n"),
        (OSError(errno.EACCES, "Permission denied", "/x"), 2, "rllc: /x: Permission denied; choose another root=.\n"),
        (OSError(errno.EROFS, "Read-only", "/x"), 2, "rllc: /x: Read-only; choose another root=.\n"),
    ],
)  # fmt: skip
def test_how_a_verb_ends_is_one_line_and_a_code(
    end: BaseException | int, code: int, said: str, main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(end) == code
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize("fault", [ZeroDivisionError(), OSError(errno.EIO, "Input/output error")])
def test_a_fault_of_ours_is_not_hidden(fault: BaseException, main: Callable[..., int]) -> None:
    with pytest.raises((ZeroDivisionError, OSError)):
        main(fault)


def test_a_verb_that_does_not_exist(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["rllc", "swep"])
    assert cli.main() == 2
    assert capsys.readouterr().err == f"rllc: verb: 'swep' is not one of: {', '.join(cli.VERBS)}.\n"


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_verb(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["rllc", *words])
    assert cli.main() == 0
    out = capsys.readouterr().out
    assert all(f"\n  {verb} " in out for verb in cli.VERBS)


def test_help_takes_less_than_half_a_second_of_cpu() -> None:
    with subprocess.Popen([*COMMAND, "--help"], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.read()
        _, code, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(code)
    assert process.returncode == 0
    assert used.ru_utime + used.ru_stime < 0.5


def test_the_version_is_shown() -> None:
    shown = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("rllc 0.")


STOPPED = """
import os, signal, sys, time, weakref
from rllc import cli
class Thing: pass
def act(verb, words):
    thing = Thing()
    keep = weakref.ref(thing, lambda _: (os.kill(os.getpid(), signal.{signal}), time.sleep(0.01)))
    del thing  # the signal arrives inside the callback, which swallows the exception of the handler
    time.sleep(20)
    return 0
cli._dispatch = act
sys.argv = ["rllc", "sweep"]
sys.exit(cli.main())
"""


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_that_a_callback_swallows_stops_all_the_same(name, code):
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", STOPPED.format(signal=name)], capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert time.monotonic() - began < 15
    assert "Traceback" not in done.stderr

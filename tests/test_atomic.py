import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rllc import atomic
from rllc.mistake import Mistake


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_whole_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    with atomic.replace(path) as file:
        file.write(b"half")
        file.flush()
        assert not path.exists()
        file.write(b" and half")
    assert path.read_bytes() == b"half and half"
    assert names(path.parent) == ["file"]


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic.write_text(path, "old")

    def fail() -> None:
        with atomic.replace(path) as file:
            file.write(b"new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_a_library_that_writes_by_path(tmp_path: Path) -> None:
    atomic.write(tmp_path / "file", lambda path: path.write_text("text"))
    assert (tmp_path / "file").read_text() == "text"
    assert names(tmp_path) == ["file"]


def test_a_reader_sees_one_of_two_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = {letter * 50_000 for letter in "ab"}
    atomic.write_text(path, "a" * 50_000)
    writers = [
        threading.Thread(target=lambda text=text: [atomic.write_text(path, text) for _ in range(40)])
        for text in contents
    ]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        seen.add(path.read_text())
    assert seen <= contents
    assert names(tmp_path) == ["file"]


def marker(folder: Path) -> dict[str, object]:
    return json.loads((folder / "owner.json").read_text())


def test_the_marker_is_there_while_the_work_lasts(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with atomic.owner(folder, "name"):
        assert marker(folder)["pid"] == os.getpid()
        with pytest.raises(Mistake, match=f"^name: {folder} is in use by process {os.getpid()} on ") as told:  # noqa: SIM117
            with atomic.owner(folder, "name"):
                pass
        assert str(folder / "owner.json") in str(told.value)
    assert not folder.exists()  # it was made for the marker alone


def test_the_marker_goes_when_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), atomic.owner(tmp_path, "name"):
        _ = 1 / 0
    assert names(tmp_path) == []


def claimed(folder: Path, **changed: object) -> None:
    """Leave a marker of this process, with some entries changed."""
    with atomic.owner(folder, "name"):
        mine = marker(folder)
    (folder / "owner.json").write_text(json.dumps({**mine, **changed}))


def gone() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_dead_owner_is_replaced(tmp_path: Path) -> None:
    claimed(tmp_path, pid=gone())
    with atomic.owner(tmp_path, "name"):
        assert marker(tmp_path)["pid"] == os.getpid()
    assert names(tmp_path) == []


@pytest.mark.parametrize("changed", [{"started": "1"}, {"boot": "another"}], ids=["number used again", "earlier boot"])
def test_an_owner_before_this_one_with_its_number_is_dead(tmp_path: Path, changed: dict[str, object]) -> None:
    claimed(tmp_path, **changed)
    with atomic.owner(tmp_path, "name"):
        pass


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_marker_that_says_nothing_is_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / "owner.json").write_text(text)
    with atomic.owner(tmp_path, "name"):
        assert marker(tmp_path)["pid"] == os.getpid()


@pytest.mark.parametrize("changed", [{"host": "elsewhere"}, {"space": "12345678"}], ids=["host", "container"])
def test_an_owner_whose_numbers_say_nothing_here_is_believed(tmp_path: Path, changed: dict[str, object]) -> None:
    claimed(tmp_path, **changed, pid=gone())
    with pytest.raises(Mistake, match="; wait for it, or remove"), atomic.owner(tmp_path, "name"):
        pass


def test_of_many_that_take_a_dead_owners_place_one_wins(tmp_path: Path) -> None:
    claimed(tmp_path, pid=gone())
    code = (
        "import sys, time, pathlib\nfrom rllc import atomic, mistake\nsys.stdin.readline()\n"
        "try:\n    with atomic.owner(pathlib.Path(sys.argv[1]), 'name'):\n        print('won', flush=True)\n"
        "        sys.stdin.readline()\nexcept mistake.Mistake:\n    print('lost', flush=True)\n"
    )
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(6)
    ]
    for racer in racers:
        assert racer.stdin
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = [racer.stdout.readline().strip() for racer in racers if racer.stdout]
    for racer in racers:
        racer.communicate("\n")
    assert sorted(said) == ["lost"] * 5 + ["won"]


def test_a_folder_that_cannot_be_made_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Mistake, match="cannot be written"), atomic.owner(tmp_path / "file" / "folder", "name"):
        pass


def test_a_full_disk_is_no_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"), atomic.owner(tmp_path, "name"):
        pass


def killed(folder: Path) -> Path:
    """The temporary file of a process that was killed while it wrote."""
    code = """
import os, pathlib, sys
from rllc import atomic
writer = atomic.replace(pathlib.Path(sys.argv[1]) / "file")
writer.__enter__()
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", code, str(folder)], check=False)
    (file,) = folder.glob(".*.tmp")
    return file


def test_a_dead_writers_file_is_left_over_and_a_living_ones_is_not(tmp_path: Path) -> None:
    dead = killed(tmp_path)
    with atomic.replace(tmp_path / "other"):
        assert list(atomic.leftovers(tmp_path)) == [dead]


def test_a_later_process_of_the_same_number_is_another(tmp_path: Path) -> None:
    with atomic.replace(tmp_path / "file") as file:
        mine = Path(file.name)
        *head, process, token, suffix = mine.name.split(".")
        pid, _, started = process.partition("-")
        assert (pid, started) == (str(os.getpid()), str(int(started)))
        again = mine.with_name(".".join([*head, f"{pid}-{int(started) - 1}", token, suffix]))
        again.touch()
        assert list(atomic.leftovers(tmp_path)) == [again]


def test_an_earlier_boot_is_over_and_another_host_or_container_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with atomic.replace(tmp_path / "file") as file:
        monkeypatch.setattr(atomic, "_boot", lambda: "another")
        assert list(atomic.leftovers(tmp_path)) == [Path(file.name)]
        monkeypatch.setattr("socket.gethostname", lambda: "another")
        assert not list(atomic.leftovers(tmp_path))


def test_other_names_are_no_leftovers(tmp_path: Path) -> None:
    for name in (".file.0123456789abcdef.tmp", "a.tmp", ".tmp", "file", ".a-b.1-2.x.tmp.npz", ".a-b.x-2.x.tmp"):
        (tmp_path / name).touch()
    assert not list(atomic.leftovers(tmp_path))

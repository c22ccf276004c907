import dataclasses
import errno
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rllc import atomic, store
from rllc.task import Estimate, Sampler, Task

SAMPLER = Sampler(lr=1e-3, nbeta=30.0, gamma=200.0, chains=2, draws=3, burn_in=1, batch=8)
TASK = Task("demo-s0", "0a1b", 100, "L1H6", "code", "2c3d", "llc", 0, SAMPLER)
ESTIMATE = Estimate(
    task=TASK, value=0.1 + 0.2, error=1e-17, chains_C=np.array([0.1, 0.5]), health="suspect", reason="stein 1.4 “far”",
    loss_CS=np.arange(8, dtype=np.float32).reshape(2, 4) / 7, stats={"stein": 1.4, "rhat": math.inf}, seconds=0.25,
    code="0.1.0+abc",
)  # fmt: skip


def of(seed: int, **changed: object) -> Estimate:
    return dataclasses.replace(ESTIMATE, task=dataclasses.replace(TASK, seed=seed), **changed)


def same(one: Estimate, other: Estimate) -> bool:
    """Equality field by field, NaN equal to NaN."""
    pairs = ((getattr(one, field.name), getattr(other, field.name)) for field in dataclasses.fields(Estimate))
    return all(
        np.array_equal(a, b, equal_nan=True) and a.dtype == b.dtype
        if isinstance(a, np.ndarray)
        else a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b))
        for a, b in pairs
    )


@pytest.mark.parametrize("value", [0.1 + 0.2, math.nan])
def test_an_estimate_comes_back_to_the_bit(value: float, tmp_path: Path) -> None:
    put = dataclasses.replace(ESTIMATE, value=value, chains_C=np.array([value, 0.5]))
    store.put(tmp_path, put, "w")
    assert same(store.get(tmp_path, TASK.key), put)
    assert store.path(tmp_path, TASK.key) == tmp_path / "results" / TASK.key[:2] / f"{TASK.key}.npz"
    assert store.path(tmp_path, TASK.key).exists()


def test_the_same_estimate_is_the_same_file(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        store.put(tmp_path / folder, ESTIMATE, folder)
        time.sleep(0.01)
    assert store.path(tmp_path / "a", TASK.key).read_bytes() == store.path(tmp_path / "b", TASK.key).read_bytes()


def test_a_file_under_anothers_name_is_refused(tmp_path: Path) -> None:
    store.put(tmp_path, ESTIMATE, "w")
    other = store.path(tmp_path, "f" * 32)
    other.parent.mkdir(parents=True)
    store.path(tmp_path, TASK.key).rename(other)
    with pytest.raises(ValueError, match=f"and key {TASK.key}, expected 1 and ffff"):
        store.get(tmp_path, "f" * 32)


def test_a_file_of_another_schema_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(tmp_path, ESTIMATE, "w")
    monkeypatch.setattr(store, "SCHEMA", 2)
    with pytest.raises(ValueError, match=r"schema 1 .*, expected 2"):
        store.get(tmp_path, TASK.key)


def test_keys_are_those_of_whole_results(tmp_path: Path) -> None:
    assert store.keys(tmp_path) == set()
    store.put(tmp_path, ESTIMATE, "w")
    folder = store.path(tmp_path, TASK.key).parent
    (folder / f".{TASK.key}.npz.0123456789abcdef.tmp").write_bytes(b"half")
    (tmp_path / "results" / "README").write_text("")
    assert store.keys(tmp_path) == {TASK.key}


def test_an_index_line_is_json_with_null_for_nan(tmp_path: Path) -> None:
    store.put(tmp_path, dataclasses.replace(ESTIMATE, value=math.nan, error=math.inf), "w")
    line = (tmp_path / "index" / "w.jsonl").read_text()
    assert "NaN" not in line
    assert "Infinity" not in line
    assert json.loads(line) == {
        "key": TASK.key, "value": None, "error": None, "seconds": 0.25, "health": "suspect", "reason": "stein 1.4 “far”"
    }  # fmt: skip


def test_the_index_is_rebuilt_from_the_results_where_lines_are_missing_or_torn(tmp_path: Path) -> None:
    estimates = [of(seed, value=float(seed)) for seed in range(6)]
    for estimate in estimates:
        store.put(tmp_path, estimate, "w")
    whole = store.index(tmp_path)
    assert [whole[estimate.task.key]["value"] for estimate in estimates] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    file = tmp_path / "index" / "w.jsonl"
    lines = file.read_text().splitlines()
    torn = [
        "", "\n".join(lines[:3]), "\n".join(lines)[:-7], lines[0][:40] + lines[1] + "\n" + "\n".join(lines[3:]) + "\n",
        lines[0] + "\n" + "\0" * 30 + "\n" + lines[2] + "\n", lines[0][:-1],
    ]  # fmt: skip
    for text in torn:
        file.write_text(text)
        assert store.index(tmp_path) == whole
    file.unlink()
    assert store.index(tmp_path) == whole


def test_a_line_without_its_result_counts_for_nothing(tmp_path: Path) -> None:
    store.put(tmp_path, ESTIMATE, "w")
    store.path(tmp_path, TASK.key).unlink()
    assert store.index(tmp_path) == {}


def test_a_line_after_a_torn_one_is_not_lost(tmp_path: Path) -> None:
    store.put(tmp_path, of(0), "w")
    index = tmp_path / "index" / "w.jsonl"
    index.write_bytes(index.read_bytes()[:-9])
    store.put(tmp_path, of(1), "w")
    store.put(tmp_path, of(2), "w")
    assert [entry["key"] for entry in store.parse(index.read_bytes().splitlines())] == [
        of(seed).task.key for seed in (1, 2)
    ]
    assert b"\n\n" not in index.read_bytes()


@pytest.mark.parametrize("line", ["null", "12", "[]", "{}", '{"key": 3}', '"key"', f'{{"key": "{TASK.key}"}}'])
def test_an_index_line_that_is_none_is_passed_over(line: str, tmp_path: Path) -> None:
    store.put(tmp_path, ESTIMATE, "w")
    whole = store.index(tmp_path)
    (tmp_path / "index" / "w.jsonl").write_text(f"{line}\n")
    assert store.index(tmp_path) == whole


def test_present_looks_at_what_is_asked(tmp_path: Path) -> None:
    store.put(tmp_path, of(0), "w")
    store.put(tmp_path, of(1), "w")
    assert store.present(tmp_path, [of(1).task.key, of(2).task.key]) == {of(1).task.key}


def damaged(content: bytes) -> dict[str, bytes]:
    """What a full disk, a crash or a bad sector make of a file."""
    half = len(content) // 2
    return {
        "empty": b"", "cut": content[:half], "one short": content[:-1], "zeros": bytes(len(content)),
        "half zeros": content[:half] + bytes(len(content) - half), "head gone": content[half:], "text": b"not a zip",
    }  # fmt: skip


@pytest.mark.parametrize("how", damaged(b""))
def test_a_damaged_result_is_told_and_never_stops_the_index(how: str, tmp_path: Path) -> None:
    for seed in range(3):
        store.put(tmp_path, of(seed), "w")
    file = store.path(tmp_path, of(1).task.key)
    file.write_bytes(damaged(file.read_bytes())[how])
    with pytest.raises(store.Damaged, match=rf"^{file}: damaged \(\w+: "):
        store.get(tmp_path, of(1).task.key)
    (tmp_path / "index" / "w.jsonl").unlink()
    assert store.index(tmp_path).keys() == {of(seed).task.key for seed in (0, 2)}


def test_no_flipped_bit_of_any_byte_makes_another_number(tmp_path: Path) -> None:
    store.put(tmp_path, ESTIMATE, "w")
    file = store.path(tmp_path, TASK.key)
    content = file.read_bytes()
    told = 0
    for place, bit in enumerate(np.random.default_rng(0).integers(8, size=len(content))):
        broken = bytearray(content)
        broken[place] ^= 1 << bit
        file.write_bytes(broken)
        try:
            found = store.get(tmp_path, TASK.key)
        except store.Damaged:
            told += 1
        else:  # a date or permission in the archive's own headers
            assert same(found, ESTIMATE)
    assert told > 0.8 * len(content)


def test_checksums_cover_what_an_array_does_not_reach(tmp_path: Path) -> None:
    """A shape that became smaller leaves bytes that nobody reads."""
    long = of(0, loss_CS=np.zeros((2, 9000), np.float32))
    store.put(tmp_path, long, "w")
    file = store.path(tmp_path, TASK.key)
    with np.load(file) as old:
        np.savez(file, **old)
    assert same(store.get(tmp_path, TASK.key), long)
    content = file.read_bytes()
    assert content.count(b"(2, 9000)") == 1
    file.write_bytes(content.replace(b"(2, 9000)", b"(2, 1000)"))
    with pytest.raises(store.Damaged, match="Bad CRC"):
        store.get(tmp_path, TASK.key)


def test_too_little_memory_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object, **__: object) -> None:
        raise MemoryError

    store.put(tmp_path, ESTIMATE, "w")
    monkeypatch.setattr(np.lib.format, "read_array", none_left)
    with pytest.raises(MemoryError):
        store.get(tmp_path, TASK.key)


def test_a_result_of_a_later_version_is_no_damage(tmp_path: Path) -> None:
    store.put(tmp_path, ESTIMATE, "w")
    with np.load(store.path(tmp_path, TASK.key)) as old:
        fields = json.loads(str(old["meta"]))
        fields["task"]["sampler"]["temper"] = 2.0
        np.savez(store.path(tmp_path, TASK.key), **{**old, "meta": np.array(json.dumps(fields))})
    with pytest.raises(ValueError, match=r"another version of rllc .*temper") as told:
        store.get(tmp_path, TASK.key)
    assert not isinstance(told.value, store.Damaged)


def test_what_is_set_aside_is_missing(tmp_path: Path) -> None:
    store.put(tmp_path, ESTIMATE, "w")
    content = store.path(tmp_path, TASK.key).read_bytes()
    there = store.set_aside(tmp_path, TASK.key)
    assert there.read_bytes() == content
    assert store.keys(tmp_path) == set()
    assert store.index(tmp_path) == {}


def test_what_killed_writers_of_this_host_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    left = """
import os, pathlib, sys
from rllc import atomic
sweep = pathlib.Path(sys.argv[1])
names = ("plan.jsonl", "results/ab/x.npz", "errors/ab/x.txt", "tokens/ab/x.parquet")
writers = [atomic.replace(sweep / name) for name in names]
for writer in writers:
    writer.__enter__()
os.kill(os.getpid(), 9)
"""
    store.put(tmp_path, ESTIMATE, "w")
    subprocess.run([sys.executable, "-c", left, str(tmp_path)], check=False)
    killed = list(tmp_path.rglob(".*.tmp"))
    assert len(killed) == 4
    elsewhere = killed[0].with_name(killed[0].name.replace("plan", "grid").replace(".jsonl.", ".jsonl.0"))
    foreign = store.path(tmp_path, TASK.key).with_name(".notes.tmp")
    for file in (elsewhere, foreign):
        file.write_text("")
    with atomic.replace(tmp_path / "mine"):
        before = set(tmp_path.rglob("*"))
        store.tidy(tmp_path)
        assert before - set(tmp_path.rglob("*")) == set(killed)
    assert store.keys(tmp_path) == {TASK.key}


def test_an_error_is_kept_until_a_success(tmp_path: Path) -> None:
    store.put_error(tmp_path, TASK.key, "Traceback …\n  File …\nValueError: no such rows\n\n")
    store.put_error(tmp_path, of(1).task.key, "")
    store.put_error(tmp_path, of(2).task.key, "x" * 10**5 + "\nOSError: “far” " + "y" * 100)
    assert store.errors(tmp_path) == {
        TASK.key: "ValueError: no such rows", of(1).task.key: "", of(2).task.key: "OSError: “far” " + "y" * 100
    }  # fmt: skip
    (tmp_path / "errors" / of(2).task.key[:2] / f"{of(2).task.key}.txt").write_bytes(b"\xff\xfe\x00")
    assert set(store.errors(tmp_path)) == {of(seed).task.key for seed in range(3)}
    store.put(tmp_path, of(2), "w")
    store.put(tmp_path, ESTIMATE, "w")
    assert store.errors(tmp_path) == {of(1).task.key: ""}
    store.clear_errors(tmp_path)
    assert store.errors(tmp_path) == {}


def test_a_full_disk_leaves_neither_half_a_result_nor_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        store.put(tmp_path, ESTIMATE, "w")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


WRITER = """
import pathlib, sys
sys.path.insert(0, sys.argv[2])
from rllc import store
from test_store import of
import numpy as np
folder, first = pathlib.Path(sys.argv[1]), int(sys.argv[3])
print("ready", flush=True)
for seed in range(first, first + 10**6):
    store.put(folder, of(seed, loss_CS=np.random.default_rng(seed).random((4, 500), np.float32)), f"w{first}")
"""


def test_a_result_is_whole_or_absent_however_often_its_writer_is_killed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for first in range(0, 6 * 10**6, 10**6):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(Path(__file__).parent), str(first)],
            stdout=subprocess.PIPE,
        ) as writer:
            assert writer.stdout
            writer.stdout.readline()
            wanted = len(store.keys(tmp_path)) + 4
            while len(store.keys(tmp_path)) < wanted:
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.1))
            writer.send_signal(signal.SIGKILL)
    keys = store.keys(tmp_path)
    assert len(keys) > 20
    for key in keys:
        assert store.get(tmp_path, key).loss_CS.shape == (4, 500)
    assert set(store.index(tmp_path)) == keys

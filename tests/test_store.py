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

from rllc import store
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


def test_an_error_is_kept_until_a_success(tmp_path: Path) -> None:
    store.put_error(tmp_path, TASK.key, "Traceback …\n  File …\nValueError: no such rows\n\n")
    store.put_error(tmp_path, of(1).task.key, "")
    assert store.errors(tmp_path) == {TASK.key: "ValueError: no such rows", of(1).task.key: ""}
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
            time.sleep(rng.uniform(0.02, 0.2))
            writer.send_signal(signal.SIGKILL)
    keys = store.keys(tmp_path)
    assert len(keys) > 20
    for key in keys:
        assert store.get(tmp_path, key).loss_CS.shape == (4, 500)
    assert set(store.index(tmp_path)) == keys

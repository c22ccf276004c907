import dataclasses
import json
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from rllc import gather, plan, store
from rllc.plan import Cell
from rllc.task import Estimate, Sampler, Task

STEPS = 3 * gather.TRACE_DRAWS
SAMPLER = Sampler(lr=1e-3, nbeta=30.0, gamma=200.0, chains=2, draws=STEPS, burn_in=0, batch=8)


def measured(part: str, metric: str = "llc", **changed: object) -> Estimate:
    sampler = SAMPLER if metric == "llc" else None
    task = Task("demo-s0", "ww", 100, part, "code", "rr", metric, 3, sampler)
    excess = np.arange(2 * STEPS, dtype=np.float32).reshape(2, STEPS) if sampler else np.zeros((0, 0), np.float32)
    estimate = Estimate(
        task=task, value=0.5, error=0.125, chains_C=np.array([0.25, 0.75]), loss_CS=excess, health="ok", reason="",
        stats={"stein": 1.5, "rhat": 1.25, "freedom": 1.0}, seconds=2.0, code="0.1.0+abc",
    )  # fmt: skip
    return dataclasses.replace(estimate, **changed)


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    estimates = [
        measured("L1H11"), measured("L0*", value=math.nan, error=math.nan, health="diverged", reason="a loss"),
        measured("L1H11", "prev_token"),
    ]  # fmt: skip
    for estimate in estimates:
        store.put(tmp_path, estimate, "w")
    missing = measured("L0H0").task
    plan.write(
        tmp_path,
        [
            Cell(task, str(tmp_path / "run" / "checkpoints" / "c"), "r", 1.0)
            for task in [*(one.task for one in estimates), missing]
        ],
    )
    run = tmp_path / "run"
    run.mkdir()
    (run / "metrics.jsonl").write_text('{"step": 0, "loss": 5.5}\n{"step": 10, "loss": 4.5}\n{"step": 20, "lo')  # torn
    return tmp_path


def test_every_result_is_a_row_and_what_is_missing_is_counted(sweep: Path) -> None:
    assert gather.gather(sweep, plan.read(sweep)) == store.keys(sweep)
    table = parquet.read_table(sweep / "estimates.parquet")
    assert table.schema.metadata[b"rllc.schema"] == b"1"
    rows = table.to_pylist()
    assert [(row["part"], row["metric"], row["layer"], row["head"]) for row in rows] == [
        ("L1H11", "llc", 1, 11), ("L0*", "llc", 0, -1), ("L1H11", "prev_token", 1, 11)
    ]  # fmt: skip
    first, second, third = rows
    assert {key: first[key] for key in ("key", "run", "step", "dataset", "seed", "value", "error", "health")} == {
        "key": measured("L1H11").task.key, "run": "demo-s0", "step": 100, "dataset": "code", "seed": 3, "value": 0.5,
        "error": 0.125, "health": "ok",
    }  # fmt: skip
    assert first["chains"] == [0.25, 0.75]
    half = 12.7062047 * 0.125  # Student's t with one degree of freedom
    assert (first["low"], first["high"]) == pytest.approx((0.5 - half, 0.5 + half))
    assert math.isnan(second["low"])
    assert (first["stein"], first["rhat"], first["code"], first["seconds"]) == (1.5, 1.25, "0.1.0+abc", 2.0)
    assert math.isnan(first["ess"])
    assert Sampler(**json.loads(first["sampler"])) == SAMPLER
    assert json.loads(third["sampler"]) is None
    assert math.isnan(second["value"])
    assert (second["health"], second["reason"]) == ("diverged", "a loss")
    assert first["weights_hash"] == "ww"
    assert first["rows_hash"] == "rr"
    assert first["loss"] == ""


def test_traces_are_thinned_with_both_ends(sweep: Path) -> None:
    gather.gather(sweep, plan.read(sweep))
    rows = parquet.read_table(sweep / "traces.parquet").to_pylist()
    assert [row["chain"] for row in rows if row["key"] == measured("L1H11").task.key] == [0, 1]
    for row in rows:
        assert len(row["step"]) == gather.TRACE_DRAWS
        assert (row["step"][0], row["step"][-1]) == (0, STEPS - 1)
        assert row["excess"] == [float(STEPS) * row["chain"] + step for step in row["step"]]


def test_training_losses_are_gathered_where_there_are_some(sweep: Path) -> None:
    gather.gather(sweep, plan.read(sweep))
    assert parquet.read_table(sweep / "training.parquet").to_pylist() == [
        {"run": "demo-s0", "step": 0, "loss": 5.5}, {"run": "demo-s0", "step": 10, "loss": 4.5}
    ]  # fmt: skip


def test_what_is_watched_live_is_the_begin_of_the_row(sweep: Path) -> None:
    estimate = measured("L1H11")
    live = gather.line(estimate.task, store.index(sweep)[estimate.task.key])
    row = gather.row(estimate)
    assert live == {key: row[key] for key in live}
    assert list(row)[: len(live)] == list(live)


def test_gathering_again_gives_the_same_bytes(sweep: Path) -> None:
    gather.gather(sweep, plan.read(sweep))
    before = [(sweep / name).read_bytes() for name in gather.FILES]
    gather.gather(sweep, plan.read(sweep))
    assert [(sweep / name).read_bytes() for name in gather.FILES] == before


def test_small_row_groups_hold_the_same_rows(sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gather.gather(sweep, plan.read(sweep))
    whole = [parquet.read_table(sweep / name) for name in gather.FILES]
    monkeypatch.setattr(gather, "ROWS", 1)
    gather.gather(sweep, plan.read(sweep))
    assert parquet.ParquetFile(sweep / "estimates.parquet").num_row_groups == 3
    for name, table in zip(gather.FILES, whole, strict=True):
        again = parquet.read_table(sweep / name)
        assert again.schema.equals(table.schema, check_metadata=True)
        assert str(again.to_pylist()) == str(table.to_pylist())


def test_columns_are_those_of_a_row_and_there_without_results(sweep: Path, tmp_path: Path) -> None:
    assert list(gather.row(measured("L1H11"))) == list(gather.COLUMNS)
    cells = plan.read(sweep)
    gather.gather(sweep, cells)
    schema = parquet.read_schema(sweep / "estimates.parquet")
    empty = tmp_path / "sweeps" / "empty"
    assert gather.gather(empty, cells) == set()
    assert parquet.read_table(empty / "estimates.parquet").num_rows == 0
    assert parquet.read_schema(empty / "estimates.parquet").equals(schema)


def test_a_damaged_result_is_named_moved_aside_and_missing(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = measured("L0*").task.key
    file = store.path(sweep, key)
    file.write_bytes(file.read_bytes()[:-30])
    whole = store.keys(sweep)
    assert gather.gather(sweep, plan.read(sweep)) == whole - {key}
    said = capsys.readouterr().err
    assert said.startswith(f"rllc: llc of L0* on code at step 100 of demo-s0, seed 3: {file}: damaged (BadZipFile: ")
    assert said.endswith(f"moved to {sweep}/damaged/{key[:2]}/{key}.npz; the next `rllc sweep` measures it again.\n")
    assert parquet.read_table(sweep / "estimates.parquet")["part"].to_pylist() == ["L1H11", "L1H11"]
    assert key not in store.keys(sweep)
    assert gather.gather(sweep, plan.read(sweep)) == whole - {key}
    assert capsys.readouterr().err == ""


def test_memory_does_not_grow_with_the_number_of_results(sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "ROWS", 20)
    store.put(sweep, measured("L1H11"), "w")
    cell = plan.read(sweep)[0]
    peaks = []
    for count in (50, 400):  # the same result again and again
        gather.gather(sweep, [cell] * 10)
        tracemalloc.start()
        gather.gather(sweep, [cell] * count)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0] + 400 * 100

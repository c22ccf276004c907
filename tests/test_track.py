import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rllc import track
from rllc.config import Track
from rllc.mistake import Mistake
from rllc.task import Task
from rllc.track import feed, journal, points, runs, secrets

sys.path.append(str(Path(__file__).parent / "wandb"))
import file_reader
import mock_server

KEY = "0123abcd" * 5
WANDB = Track(kind="wandb", project="rllc", entity=None, mode="auto")
STEPS = [0, 1, 10, 200]
HEADS = ["L0H0", "L0H1"]
PNG = bytes.fromhex(  # one black pixel
    "89504e470d0a1a0a0000000d4948445200000001000000010800000000"
    "3a7e9b550000000a49444154789c6360000000020001e221bc330000000049454e44ae426082"
)


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NETRC", raising=False)


@pytest.fixture
def sweep(tmp_path):
    folder = tmp_path / "sweeps" / "my sweep"
    (folder / "report").mkdir(parents=True)
    (folder / "config.yaml").write_text(f"name: my sweep\nsampler:\n  lr: 0.001\napi_key: {KEY}\nnote: use {KEY}!\n")
    (folder / "report" / "curves.png").write_bytes(PNG)
    (folder / "estimates.parquet").write_bytes(b"PAR1")
    (folder / "plan.jsonl").write_text("\n".join(task.json() for task in plan()))
    return folder


def plan(steps=STEPS):
    return [
        Task("run", "w", step, head, dataset, "r", "llc", 0, None)
        for step in steps
        for dataset in ("pile", "code")
        for head in HEADS
    ]


def row(task, **changed):
    value = task.step + HEADS.index(task.part) / 10 + (1000 if task.dataset == "code" else 0)
    known = {name: getattr(task, name) for name in ("key", "run", "step", "part", "dataset", "metric", "seed")}
    return {**known, "value": value, "error": 0.5, "health": "ok", "reason": "", **changed}


def scrambled(tasks, seed=0):
    rows = [row(task) for task in tasks]
    random.Random(seed).shuffle(rows)
    return rows


def expected(dataset):
    above = 1000 if dataset == "code" else 0
    return [
        {"step": s}
        | {f"rllc/{head}": s + above + i / 10 for i, head in enumerate(HEADS)}
        | {f"error/{head}": 0.5 for head in HEADS}
        | {f"health/{head}": 0 for head in HEADS}
        for s in STEPS
    ]


class Recorder:
    def __init__(self):
        self.items = []

    def log(self, item):
        self.items.append(item)

    def close(self, seconds):
        pass

    def steps(self, dataset):
        return [item.step for item in self.items if isinstance(item, points.Point) and item.dataset == dataset]


@pytest.fixture
def recorder(monkeypatch):
    sink = Recorder()
    monkeypatch.setattr(track, "_sink", lambda *_: sink)
    return sink


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_rows_gives_the_curves_in_step_order(sweep, recorder, seed):
    collector = track.Collector(sweep, WANDB, plan())
    for one in scrambled(plan(), seed):
        collector.update([one])
        collector.update([one])
    for dataset in ("pile", "code"):
        logged = [item for item in recorder.items if item.dataset == dataset]
        assert [{"step": item.step, **item.values} for item in logged] == expected(dataset)


def test_a_step_waits_for_its_cells_and_for_the_steps_before(sweep, recorder):
    tasks = [task for task in plan() if task.dataset == "pile"]
    collector = track.Collector(sweep, WANDB, tasks)
    collector.update(row(task) for task in tasks[1:])
    assert recorder.items == []
    collector.update([row(tasks[0])])
    assert recorder.steps("pile") == STEPS


def test_a_failed_cell_is_waited_for_no_longer(sweep, recorder):
    tasks = [task for task in plan() if task.dataset == "pile"]
    collector = track.Collector(sweep, WANDB, tasks)
    collector.update([row(task) for task in tasks[1:]], failed=[tasks[0].key])
    assert recorder.steps("pile") == STEPS
    assert "rllc/L0H0" not in recorder.items[0].values
    collector.update([row(tasks[0])])
    assert recorder.steps("pile") == STEPS


def test_finish_logs_what_is_incomplete_and_then_the_sweep(sweep, recorder):
    tasks = [task for task in plan() if task.dataset == "pile"]
    collector = track.Collector(sweep, WANDB, tasks)
    collector.update(row(task) for task in tasks[::2])
    assert recorder.items == []
    collector.finish({"labels": [{"part": "L0H0", "label": 1}], "empty": []})
    assert recorder.steps("pile") == STEPS
    overview = points.Overview({"labels": [{"part": "L0H0", "label": 1}]}, ["report/curves.png"], ["estimates.parquet"])
    assert recorder.items[-1] == overview


def test_collect_takes_an_arrow_table_and_shows_it(sweep, recorder):
    rows = [{**row(task), "trace": [0.0]} for task in plan()]
    track.collect(sweep, WANDB, pa.Table.from_pylist(rows))
    assert recorder.steps("code") == STEPS
    shown = recorder.items[-1].tables["estimates"]
    assert len(shown) == len(rows)
    assert "trace" not in shown[0]


def test_series_of_one_step():
    def cell(part, metric, value, error, health="ok"):
        return {"part": part, "metric": metric, "value": value, "error": error, "health": health}

    named = points.series(
        [
            cell("L0H3", "llc", 1.0, 3.0),
            cell("L0H3", "llc", 2.0, 4.0, "suspect"),
            cell("L1H0", "llc", None, math.nan, "diverged"),
            cell("L0H3", "prev_token", 0.25, None),
            cell("L1H0", "prev_token", 0.5, 0.125),
        ]
    )
    assert named.pop("rllc/L0H3") == 1.5
    assert named.pop("error/L0H3") == 2.5  # √(9 + 16) / 2
    assert named.pop("health/L0H3") == 1
    assert math.isnan(named.pop("rllc/L1H0"))
    assert math.isnan(named.pop("error/L1H0"))
    assert named == {
        "health/L1H0": 3,
        "prev_token/L0H3": 0.25,
        "prev_token/L1H0": 0.5,
        "error/prev_token/L1H0": 0.125,
    }


def test_secrets_are_masked_and_nothing_else():
    asked = {
        "api_key": "x",
        "hub": [{"token": "y"}],
        "key": "k",
        "n": 3,
        "path": "s3://me:pw@host/a",
        "note": f"<{KEY}>",
    }
    hidden = secrets.hide(asked, {"WANDB_API_KEY": KEY, "OTHER": "host", "A_TOKEN": "short"})
    assert hidden == {
        "api_key": "***",
        "hub": [{"token": "***"}],
        "key": "k",
        "n": 3,
        "path": "s3://***@host/a",
        "note": "<***>",
    }


def test_without_wandb_tracking_is_a_mistake(sweep, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(Mistake, match=r"track=wandb: wandb is not installed; pip install 'rllc\[wandb\]'"):
        track.Collector(sweep, WANDB, [])
    track.check(Track("none", "rllc", None, "auto"))


@pytest.mark.parametrize("how", ["none", "disabled"])
def test_no_tracking_leaves_no_trace(sweep, monkeypatch, how):
    if how == "disabled":
        monkeypatch.setenv("WANDB_MODE", "disabled")
    track.collect(sweep, Track("none" if how == "none" else "wandb", "rllc", None, "auto"), scrambled(plan()))
    assert not (sweep / "wandb").exists()


def test_an_unwritable_folder_warns_once(sweep, capfd):
    (sweep / "wandb").write_text("in the way")
    track.collect(sweep, WANDB, scrambled(plan()))
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1
    assert "W&B cannot write to" in said[0]


def test_a_writer_that_hangs_delays_nothing(sweep, monkeypatch, capfd):
    deaf = sweep / "deaf"
    deaf.write_text("#!/bin/sh\nexec sleep 60\n")
    deaf.chmod(0o755)
    monkeypatch.setattr(feed.sys, "executable", str(deaf))
    collector = track.Collector(sweep, WANDB, [])
    begun = time.monotonic()
    for _ in range(20):
        collector._sink.log(points.Overview({"wide": [{"x": "y" * 100_000}]}, [], []))
    assert time.monotonic() - begun < 1
    collector.close(0.5)
    collector.close()
    assert time.monotonic() - begun < 3
    assert capfd.readouterr().err.count("was stopped") == 1


@pytest.mark.slow
def test_offline_run_reads_back_exactly_and_again_under_a_new_number(sweep, capfd, monkeypatch):
    monkeypatch.setenv("OTHER_TOKEN", KEY)
    for seed in (0, 1):
        track.collect(
            sweep, WANDB, scrambled(plan(), seed), tables={"labels": [{"part": "L0H0", "label": np.int64(1)}]}
        )
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[1].endswith(f"`wandb sync '{sweep}/wandb'/offline-run-*-2` uploads it.")
    read = {(run.name, run.id[13:]): run for run in file_reader.read_all(sweep)}
    assert sorted(read) == [(name, n) for name in ("my sweep", "run code", "run pile") for n in "12"]
    for (name, _), run in read.items():
        assert (run.group, run.host, run.ended) == ("my sweep", "", True)
        assert {**run.config, "curve": None} == {
            "name": "my sweep",
            "sampler": {"lr": 0.001},
            "api_key": "***",
            "note": "use ***!",
            "curve": None,
        }
        assert read[name, "1"].id[:12] == run.id[:12]
    for dataset in ("code", "pile"):
        for n in "12":
            run = read[f"run {dataset}", n]
            assert run.history == expected(dataset)
            assert run.config["curve"] == {"run": "run", "dataset": dataset}
            assert (run.job, run.metrics) == ("estimate", {"step": "", "*": "step"})
    whole = read["my sweep", "2"]
    assert whole.job == "cluster"
    assert {"figure/curves/path", "labels/path", "estimates/path"} <= whole.history[0].keys()
    assert "my-sweep" in whole.artifacts
    assert any(name.endswith("-labels") or "-labels-" in name for name in whole.artifacts)


@pytest.mark.slow
def test_a_short_file_is_noticed(sweep, tmp_path):
    track.collect(sweep, WANDB, scrambled(plan()))
    path = next(path for path in (sweep / "wandb").glob("*run-*/*.wandb") if file_reader.read(path).name == "run pile")
    assert journal.rows(path) == len(STEPS)
    short = tmp_path / "short.wandb"
    short.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    assert 0 < journal.rows(short) < len(STEPS)
    assert journal.rows(tmp_path / "missing") == 0

    class Finished:
        class settings:  # noqa: N801
            sync_file = str(short)

        def finish(self):
            pass

    assert f"of {len(STEPS)} rows are on the disk" in runs.Run(Finished(), len(STEPS)).close()


@pytest.fixture
def server(monkeypatch):
    with mock_server.serve() as state:
        monkeypatch.setenv("WANDB_BASE_URL", state.url)
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        yield state


@pytest.mark.slow
@pytest.mark.parametrize("rough", [False, True])
def test_online_rows_and_artifact_arrive(sweep, server, capfd, monkeypatch, rough):
    if rough:  # the key in a file, and a server that is not there at first
        server.unavailable = 1
        netrc = sweep.parent / "netrc"
        netrc.write_text(f"machine {server.url.removeprefix('http://')} login user password {KEY}\n")
        netrc.chmod(0o600)
        monkeypatch.delenv("WANDB_API_KEY")
        monkeypatch.setenv("NETRC", str(netrc))
        monkeypatch.setenv("HUB_TOKEN", KEY)
    (sweep / "config.yaml").write_text(f"name: my sweep\nnote: {KEY}\n")
    track.collect(sweep, WANDB, scrambled(plan()))
    assert capfd.readouterr().err == ""
    arrived = {run["displayName"]: (id_, run) for id_, run in server.runs.items()}
    for dataset in ("pile", "code"):
        rows = server.history(arrived[f"run {dataset}"][0])
        assert [{k: v for k, v in row.items() if k[0] != "_"} for row in rows] == expected(dataset)
        assert arrived[f"run {dataset}"][1]["groupName"] == "my sweep"
    assert server.uploads["/artifact/estimates.parquet"] == b"PAR1"
    assert "CommitArtifact" in server.operations
    assert KEY not in json.dumps(server.runs)
    (sweep / "config.yaml").unlink()
    assert not [path for path in sweep.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def opened(sweep):
    deadline = time.monotonic() + 30
    while not list((sweep / "wandb").glob("*run-*/*.wandb")):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
def test_a_server_that_dies_leaves_the_rows_on_the_disk(sweep, server, capfd):
    rows = [row(task) for task in plan()]
    with track.Collector(sweep, WANDB, plan()) as collector:
        collector.update(rows[:4])
        opened(sweep)
        time.sleep(1)
        server.die()
        collector.update(rows[4:])
        begun = time.monotonic()
    assert time.monotonic() - begun < 15
    assert {run.name: run.history for run in file_reader.read_all(sweep)} == {
        "run pile": expected("pile"),
        "run code": expected("code"),
    }
    said = capfd.readouterr().err.splitlines()
    assert said == [
        "track: W&B failed: the upload did not end in 10 s; the sweep goes on, `rllc track` writes it again."
    ]


@pytest.mark.slow
def test_an_unreachable_server_warns_once(sweep, monkeypatch, capfd):
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    collector = track.Collector(sweep, WANDB, plan())
    begun = time.monotonic()
    collector.update(scrambled(plan()))
    assert time.monotonic() - begun < 0.5
    collector.finish()
    assert time.monotonic() - begun < 30
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith("track: W&B failed: CommError")


@pytest.mark.slow
def test_a_killed_wandb_core_stops_nothing(sweep, capfd):
    rows = [row(task) for task in plan()]
    with track.Collector(sweep, WANDB, plan()) as collector:
        collector.update(rows[:4])
        opened(sweep)
        writer = str(collector._sink._writer.pid)
        core = subprocess.run(["pgrep", "-P", writer], capture_output=True, text=True, check=True).stdout.split()
        os.kill(int(core[0]), signal.SIGKILL)
        for one in rows[4:]:
            collector.update([one])
        begun = time.monotonic()
    assert time.monotonic() - begun < 10
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith("track: W&B failed: ")


@pytest.mark.slow
def test_a_killed_sweep_leaves_complete_files(sweep):
    program = (
        "import sys, time, test_track as t; from pathlib import Path; from rllc import track\n"
        "c = track.Collector(Path(sys.argv[1]), t.WANDB, t.plan()); c.update(t.scrambled(t.plan()))\n"
        "print(c._sink._writer.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(sweep)], cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True
    ) as parent:
        writer = int(parent.stdout.readline())
        opened(sweep)
        os.kill(writer, signal.SIGTERM)
        parent.kill()
    deadline = time.monotonic() + 20
    while not all(run.ended for run in file_reader.read_all(sweep)) or len(file_reader.read_all(sweep)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert {run.name: run.history for run in file_reader.read_all(sweep)} == {
        "run pile": expected("pile"),
        "run code": expected("code"),
    }

"""Tracking through the command line, against a server on loopback."""

import json

import pytest
from tiny import MODEL, Job

pytestmark = pytest.mark.slow
HEADS = [f"L{layer}H{head}" for layer in range(MODEL["n_layers"]) for head in range(MODEL["n_heads"])]


def rows(server, name):
    (found,) = [server.history(id_) for id_, run in server.runs.items() if run["displayName"] == name]
    return found


def test_a_sweep_its_repetition_and_the_runs_made_anew(fresh: Job, server) -> None:
    done = fresh.do("sweep", "track=wandb", "track.tags=[night]")
    assert done.returncode == 0, done.stderr
    assert "track:" not in done.stderr
    names = {run["displayName"] for run in server.runs.values()}
    assert names == {"tiny", "tiny-s0 training", "tiny-s0 files", "tiny-s0 repeats"}
    losses = [json.loads(line) for line in (fresh.run_folder / "metrics.jsonl").read_text().splitlines()]
    shown = rows(server, "tiny-s0 training")
    assert [(row["_step"], row["train/loss"]) for row in shown] == [(line["step"], line["loss"]) for line in losses]
    curve = rows(server, "tiny-s0 files")
    assert [row["step"] for row in curve] == [0, 10, 20]
    lines = [json.loads(line) for file in fresh.sweep.glob("index/*.jsonl") for line in file.read_text().splitlines()]
    values = {line["value"] for line in lines}
    assert all(row[f"rllc/{head}"] in values for row in curve for head in HEADS)
    assert {"labels", "estimates"} <= rows(server, "tiny")[0].keys()
    assert all("night" in run["tags"] for run in server.runs.values())
    before = list(server.operations)
    again = fresh.do("sweep", "track=wandb")
    assert again.returncode == 0, again.stderr
    assert server.operations == before
    anew = fresh.do("track", "track.rebuild=true")
    assert anew.returncode == 0, anew.stderr
    assert {run["displayName"] for run in server.runs.values()} == names | {f"{name} (2)" for name in names}
    for name in names - {"tiny"}:
        assert timeless(rows(server, name)) == timeless(rows(server, f"{name} (2)"))


def timeless(history):
    return [{name: value for name, value in row.items() if name not in ("_runtime", "_timestamp")} for row in history]


def test_another_process_shows_a_sweep_that_is_not_tracked_itself(job: Job, server) -> None:
    done = job.do("sweep")
    assert done.returncode == 0, done.stderr
    assert server.runs == {}
    followed = job.do("track")
    assert followed.returncode == 0, followed.stderr
    assert [row["step"] for row in rows(server, "tiny-s0 files")] == [0, 10, 20]
    assert len(rows(server, "tiny")) == 1

"""The W&B client itself: what is in its files, and what reaches a server over loopback."""

import dataclasses
import getpass
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import file_reader
import pytest
from small import KEY, STEPS, WANDB, expected, measure, plan, row, scrambled, training

from rllc import closing, store, track
from rllc.track import ending, journal, turn

pytestmark = pytest.mark.slow
WHOLE = {"run pile": expected("pile"), "run code": expected("code")}


def shown(sweep, rows=None, *, again=False, options=WANDB):
    """Show a sweep as `rllc sweep` does, the training first."""
    with track.Collector(sweep, options, {"run": sweep.parent.parent / "runs/run/metrics.jsonl"}, again=again) as made:
        made.expect(plan())
        made.watch()
        made.update(scrambled(plan()) if rows is None else rows)
        return made.finish(lambda: closing.overview(sweep))


def arrived(server):
    """The rows of every run by its name, W&B's own left out."""
    rows = {run["displayName"]: server.history(id_) for id_, run in server.runs.items()}
    return {name: [{k: v for k, v in row.items() if k[0] != "_"} for row in found] for name, found in rows.items()}


def sync(sweep):
    """Do what the hint says."""
    runs = sorted(str(path.relative_to(sweep)) for path in (sweep / "wandb").glob("offline-run-*"))
    return subprocess.run(
        [sys.executable, "-m", "wandb", "sync", *runs],
        cwd=sweep, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip


def local(sweep):
    """The rows in the local files, by the name of the run, without that of the sweep."""
    return {run.name: run.history for run in file_reader.read_all(sweep) if run.name != "my sweep"}


def opened(sweep, count=1):
    deadline = time.monotonic() + 30
    while len(list((sweep / "wandb").glob("*run-*/*.wandb"))) < count:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def tells(content):
    """What of this machine, its user and the secrets of the sweep is in some bytes."""
    words = [
        str(Path.home()), str(Path(sys.executable).parent), str(Path(__file__).parent), "/mnt/lab", "secret-lab",
        "my sweep/wandb", "rllc.track.writer", "rllc/track", KEY, "pytest-of",
    ]  # fmt: skip
    names = [rf"\b{re.escape(name)}\b" for name in (socket.gethostname(), getpass.getuser()) if len(name) > 3]
    return [w for w in words if w.encode() in content] + [n for n in names if re.search(n.encode(), content)]


def test_offline_runs_read_back_exactly_and_are_replaced_by_the_next(sweep, capfd, monkeypatch):
    monkeypatch.setenv("OTHER_TOKEN", KEY)
    shown(sweep)
    first = {run.name: run for run in file_reader.read_all(sweep)}
    shown(sweep)
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[1].endswith(f"`(cd '{sweep}' && wandb sync wandb/offline-run-*-2)` uploads it.")
    read = {run.name: run for run in file_reader.read_all(sweep)}
    assert sorted(read) == [f"{name} (2)" for name in ("my sweep", "run code", "run pile", "run training")]
    for name, run in read.items():
        before = first[name.removesuffix(" (2)")]
        assert (run.group, run.host, run.ended) == ("my sweep", "", True)
        assert (before.id[-2:], run.id[-2:], before.id[:12]) == ("-1", "-2", run.id[:12])
        assert run.history == before.history or name == "my sweep (2)"
        assert {k: run.config[k] for k in run.config if k not in ("curve", "code")} == {
            "name": "my sweep",
            "sampler": {"lr": 0.001},
            "api_key": "***",
            "note": "use ***!",
            "data": {"pile": {"path": "data/pile.jsonl"}, "code": {"path": "…/code.jsonl"}},
        }
    for dataset in ("code", "pile"):
        run = read[f"run {dataset} (2)"]
        assert run.history == expected(dataset)
        assert run.config["curve"] == {"run": "run", "dataset": dataset}
        assert run.tags == ["rllc", "run", dataset]
        assert (run.job, run.metrics) == ("estimate", {"step": "", "*": "step"})
    assert read["run training (2)"].history == training()
    assert read["run training (2)"].job == "train"
    whole = read["my sweep (2)"]
    assert whole.job == "sweep"
    assert {"figure/curves/path", "estimates/path"} <= whole.history[0].keys()
    assert "my-sweep" in whole.artifacts


def test_nothing_of_the_machine_is_in_the_files_or_reaches_the_server(sweep, server, monkeypatch):
    measure(sweep, plan()[:1], health="suspect", reason=f"see {Path.home()}/notes/a.txt")
    shown(sweep)
    assert server.uploads["/artifact/estimates.parquet"] == (sweep / "estimates.parquet").read_bytes()
    assert len(server.sent) > 20
    assert tells(b"\n".join(server.sent)) == []
    assert {run.get("host") for run in server.runs.values()} <= {None, ""}
    monkeypatch.setenv("WANDB_MODE", "offline")
    shown(sweep)
    files = [path for path in (sweep / "wandb").rglob("*") if path.suffix in (".wandb", ".json", ".yaml")]
    assert len(files) > 8
    assert [found for path in files if (found := tells(path.read_bytes()))] == []
    (sweep / "config.yaml").unlink()
    assert not [path for path in sweep.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_what_is_asked_for_is_sent(sweep, server):
    options = dataclasses.replace(WANDB, machine=True, tags=["night", "x" * 80])
    shown(sweep, options=options)
    sent = b"\n".join(server.sent)
    assert b"secret-lab" in sent
    assert str(sweep.parent.parent).encode() in sent
    assert {run["displayName"]: run["tags"] for run in server.runs.values()}["my sweep"] == ["rllc", "night", "x" * 64]


@pytest.mark.parametrize("rough", [False, True])
def test_online_rows_and_artifact_arrive(sweep, server, capfd, monkeypatch, rough):
    if rough:  # the key in a file, and a server that is not there at first
        server.unavailable = 2
        netrc = sweep.parent / "netrc"
        netrc.write_text(f"machine {server.url.removeprefix('http://')} login user password {KEY}\n")
        netrc.chmod(0o600)
        monkeypatch.delenv("WANDB_API_KEY")
        monkeypatch.setenv("NETRC", str(netrc))
        monkeypatch.setenv("HUB_TOKEN", KEY)
    assert shown(sweep)
    assert capfd.readouterr().err == ""
    assert server.unavailable == 0
    found = arrived(server)
    assert len(found.pop("my sweep")) == 1
    assert found == {**WHOLE, "run training": training()}
    assert {run["groupName"] for run in server.runs.values()} == {"my sweep"}
    assert server.uploads["/artifact/estimates.parquet"] == (sweep / "estimates.parquet").read_bytes()
    assert "CommitArtifact" in server.operations
    assert KEY not in json.dumps(server.runs)


def interrupted(sweep, rows):
    """Show a sweep from a process that is killed, with the process that speaks to W&B, once its rows are sent."""
    program = (
        "import sys, time, test_wandb as t; from pathlib import Path; from rllc import track\n"
        f"c = track.Collector(Path(sys.argv[1]), t.WANDB, {{}}); c.expect(t.plan())\n"
        f"c.update([t.row(task) for task in t.plan()[:{rows}]]); print(c._sink._writer.pid, flush=True); time.sleep(60)"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, str(sweep)], cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip


def children(pid):
    return [int(one) for one in subprocess.run(["pgrep", "-P", str(pid)], capture_output=True).stdout.split()]


def until(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def kill_all(parent, writer):
    for pid in (parent.pid, *children(writer), writer):
        os.kill(pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()


def test_a_killed_collector_goes_on_and_every_step_is_there_once(sweep, server, capfd):
    parent = interrupted(sweep, 8)
    writer = int(parent.stdout.readline())
    until(lambda: sum(map(len, arrived(server).values())) == 4)
    kill_all(parent, writer)
    assert arrived(server) == {"run pile": expected("pile")[:2], "run code": expected("code")[:2]}
    assert shown(sweep)
    assert capfd.readouterr().err == ""
    found = arrived(server)
    assert len(found.pop("my sweep")) == 1
    assert found == {**WHOLE, "run training": training()}
    assert all(id_.endswith("-1") for id_ in server.runs)
    assert server.received == {id_: len(server.history(id_)) for id_ in server.runs}  # nothing was sent twice


@pytest.mark.parametrize("why", ["a hole was filled", "the plan has grown", "it is asked for"])
def test_what_cannot_go_on_is_shown_in_new_runs(sweep, server, why):
    rows = [row(task) for task in plan()]
    with track.Collector(sweep, WANDB, {}) as made:
        tasks = plan()[:8] if why == "the plan has grown" else plan()
        made.expect(tasks)
        if why == "a hole was filled":
            made.update(rows[1:4], failed=[plan()[0].key])
        else:
            made.update(rows[:8])
    before = len(server.runs)
    assert before == 2
    assert shown(sweep, again=why == "it is asked for")
    found = arrived(server)
    assert {name: found[f"{name} (2)"] for name in WHOLE} == WHOLE
    trained = "run training" + " (2)" * (why != "the plan has grown")  # of which the training is no part
    assert found[trained] == training()


def test_a_second_process_takes_over(sweep, server, capfd):
    rows = [row(task) for task in plan()]
    with track.Collector(sweep, WANDB, {}) as first:
        first.expect(plan())
        first.update(rows[:8])
        until(lambda: len(server.runs) == 2)
        before = turn.read(sweep / "wandb" / "turn.json")
        with track.Collector(sweep, WANDB, {}) as second:
            second.expect(plan())
            second.update(rows[:8])
            until(lambda: turn.read(sweep / "wandb" / "turn.json").owner != before.owner)
            time.sleep(turn.CHECK_SECONDS)
            first.update(rows[8:12])
            until(lambda: not first.alive)
            second.update(rows[8:])
    assert arrived(server) == WHOLE
    assert capfd.readouterr().err == "track: another process writes the W&B runs of this sweep from here on.\n"


def test_a_server_that_dies_leaves_the_rows_on_the_disk(sweep, server, capfd):
    rows = [row(task) for task in plan()]
    with track.Collector(sweep, WANDB, {}) as made:
        made.expect(plan())
        made.update(rows[:4])
        until(lambda: len(server.runs) == 2)
        server.die()
        made.update(rows[4:])
        begun = time.monotonic()
        assert not made.finish(lambda: ({}, []))
        assert time.monotonic() - begun < 10
    assert local(sweep) == WHOLE
    assert set(store.keys(sweep)) == {task.key for task in plan()}
    assert not turn.read(sweep / "wandb" / "turn.json").final  # the same runs go on when the server is back
    (said,) = capfd.readouterr().err.splitlines()
    assert said == f"track: W&B failed: {server.url} does not answer; the sweep goes on, `rllc track` writes it again."


def test_a_server_that_is_away_for_a_while_gets_everything(sweep, server, capfd):
    rows = [row(task) for task in plan()]
    with track.Collector(sweep, WANDB, {}) as made:
        made.expect(plan())
        made.update(rows[:4])
        until(lambda: len(server.runs) == 2)
        server.unavailable = 5
        made.update(rows[4:])
        assert made.finish(lambda: closing.overview(sweep))
    assert server.unavailable == 0
    assert capfd.readouterr().err == ""
    found = arrived(server)
    assert {name: found[name] for name in WHOLE} == WHOLE


@pytest.mark.parametrize("mode", ["auto", "online"])
def test_an_unreachable_server_is_said_once(sweep, monkeypatch, capfd, mode):
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    begun = time.monotonic()
    arrived_all = shown(sweep, options=dataclasses.replace(WANDB, mode=mode))
    assert time.monotonic() - begun < 40
    said = capfd.readouterr().err.splitlines()
    if mode == "online":
        assert not arrived_all
        assert len(said) == 1
        assert said[0].startswith("track: W&B failed: http://127.0.0.1:9 does not answer")
    else:
        assert arrived_all
        assert said[0] == "track: http://127.0.0.1:9 does not answer; the W&B runs are written offline."
        assert len(said) == 2
        assert local(sweep) == {**WHOLE, "run training": training()}


def test_a_killed_wandb_core_stops_nothing(sweep, capfd):
    rows = [row(task) for task in plan()]
    with track.Collector(sweep, WANDB, {}) as made:
        made.expect(plan())
        made.update(rows[:4])
        opened(sweep)
        os.kill(children(made._sink._writer.pid)[0], signal.SIGKILL)
        for one in rows[4:]:
            made.update([one])
        begun = time.monotonic()
    assert time.monotonic() - begun < 10
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith("track: W&B failed: ")


def test_a_killed_sweep_leaves_complete_files(sweep):
    parent = interrupted(sweep, len(plan()))
    writer = int(parent.stdout.readline())
    opened(sweep, 2)
    os.kill(writer, signal.SIGTERM)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: [run.ended for run in file_reader.read_all(sweep)] == [True, True])
    assert local(sweep) == WHOLE


def test_a_short_file_is_noticed(sweep, tmp_path):
    shown(sweep)
    path = next(path for path in (sweep / "wandb").glob("*run-*/*.wandb") if file_reader.read(path).name == "run pile")
    assert journal.rows(path) == len(STEPS)
    short = tmp_path / "short.wandb"
    short.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    assert 0 < journal.rows(short) < len(STEPS)
    assert journal.rows(tmp_path / "missing") == 0

    class Finished:
        offline = True

        class settings:  # noqa: N801
            sync_file = str(short)
            base_url = ""

        def finish(self):
            pass

    assert re.fullmatch(r"only \d of 4 rows are on the disk", *ending.end({Finished(): len(STEPS)}))


def test_offline_runs_are_synced_even_from_another_place(sweep, server, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    shown(sweep)
    assert server.runs == {}
    moved = sweep.parent.parent / "elsewhere"
    sweep.rename(moved)
    done = sync(moved)
    assert "ERROR" not in done.stdout + done.stderr
    found = arrived(server)
    assert len(found.pop("my sweep")) == 1
    assert found == {**WHOLE, "run training": training()}
    assert server.uploads["/artifact/estimates.parquet"] == (moved / "estimates.parquet").read_bytes()
    assert tells(b"\n".join(server.sent)) == []
    steps = [json.loads(line)["_step"] for line in server.streams[_id(server, "run pile")]["wandb-history.jsonl"]]
    assert steps == STEPS


def _id(server, name):
    return next(id_ for id_, run in server.runs.items() if run["displayName"] == name)


def test_the_tool_of_the_wheel_reads_the_same(sweep):
    shown(sweep)
    path = next(path for path in (sweep / "wandb").glob("*run-*/*.wandb") if file_reader.read(path).name == "run code")
    done = subprocess.run(
        [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(path)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    records = [json.loads(line) for line in done.stdout.splitlines()]
    history = [record["history"]["item"] for record in records if record["type"] == "history"]
    assert [{k: v for k, v in item.items() if k[0] != "_"} for item in history] == expected("code")
    run = next(record["run"] for record in records if record["type"] == "run")
    assert (run["display_name"], run["run_group"], run["job_type"]) == ("run code", "my sweep", "estimate")

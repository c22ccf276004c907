import csv
import json
import sys
from pathlib import Path

import pytest
import yaml
from tiny import Job

from rllc import calibration, cli, composition, probe, store
from rllc.mistake import Mistake

GRID = {
    "calibrate.lr": "[5e-4,1e-3]", "calibrate.gamma": "[200]", "calibrate.nbeta": "[30]", "calibrate.errors": "[0.1]",
    "calibrate.relaxations": 4, "calibrate.chains": 2, "sampler.chains": 4, "sampler.draws": 20, "launch.workers": 2,
}  # fmt: skip
WRONG = [
    *[(f"calibrate.{key}=[]", f"calibrate.{key}: \\[\\] must hold at least one value")
      for key in ("lr", "gamma", "nbeta", "steps", "parts")],
    ("calibrate.lr=[1e-3,1e-3]", r"calibrate.lr: \[0.001, 0.001\] must hold at least one value, and none twice"),
    *[(f"calibrate.{key}=[{value}]", f"calibrate.{key}: {said} is not a finite number above 0")
      for key in ("lr", "gamma", "nbeta", "errors") for value, said in ((0, "0.0"), (-1, "-1.0"), ("nan", "nan"))],
    *[(f"calibrate.{key}=0", f"calibrate.{key}: 0.0 is not a finite number above 0")
      for key in ("relaxations", "tolerance", "signal")],
    ("calibrate.chains=1", "calibrate.chains: 1 is below the least legal value, 2"),
    ("calibrate.steps=[-1]", "calibrate.steps: -1 is below the least legal value, 0"),
    ("calibrate.lrs=[1]", "calibrate.lrs: there is no such key"),
    ("launch.dry_run=3", "launch.dry_run: 3 is not true or false"),
]  # fmt: skip


@pytest.mark.parametrize(("word", "sentence"), WRONG, ids=[word for word, _ in WRONG])
def test_wrong_values_are_refused_in_a_sentence(word: str, sentence: str) -> None:
    with pytest.raises(Mistake, match=f"^{sentence}"):
        composition.compose([word])


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("calibrate.steps=[7]", "calibrate.steps: 7 is not one of: 0, 10, 20."),
        ("calibrate.parts=[L9H9]", "calibrate.parts: 'L9H9' is not one of: L0H0"),
        ("calibrate.lr=[0.1]", "calibrate.lr: .0.1. have a step bias above 0.1 by γ alone"),
        ("grid.parts=[L9H0]", "grid.parts: 'L9H0' matches no parameter"),
    ],
)
def test_what_the_sweep_does_not_have_is_known_before_any_work(word: str, sentence: str, fresh: Job) -> None:
    with pytest.raises(Mistake, match=f"^{sentence}"):
        calibration.run(composition.compose(fresh.words(word)))
    assert not fresh.root.exists()


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


@pytest.mark.slow
def test_a_calibration_recommends_a_sampler_that_a_sweep_takes_at_once(
    fresh: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(fresh.root, fresh.text, GRID)
    folder = job.sweep / "calibration"

    dry = job.do("calibrate", "launch.dry_run=true")
    assert dry.returncode == 0, dry.stderr
    tasks, steps = 2 * 3 * 4, 3 * 4 * 2 * ((80 + 20) + (40 + 10))  # burn-in of 1, draws of 4 relaxation times
    assert dry.stdout.startswith(
        f"calibrate: 2 settings; {tasks} tasks, 0 of them done; left: {steps:.3g} chain steps, "
    )
    assert not fresh.root.exists()

    first = job.do("calibrate")
    assert first.returncode == 0, first.stderr
    assert {row["lr"] for row in rows(folder / "table.csv")} == {"0.0005", "0.001"}
    assert all(row["plateau"] == "True" and row["diverged"] == "0" for row in rows(folder / "table.csv"))
    assert sum(int(row["chain_steps"]) for row in rows(folder / "table.csv")) == steps
    assert len(rows(folder / "cells.csv")) == tasks
    assert {file.name for file in folder.glob("*.png")} == {"map.png", "plateau.png"}
    told = (folder / "reasons.txt").read_text().splitlines()
    assert told[0].startswith("Recommended: ε 0.001, γ 200, nβ 30, ")

    results = {path.name: path.stat().st_mtime_ns for path in folder.glob("results/*/*.npz")}
    again = job.do("calibrate")
    assert again.returncode == 0, again.stderr
    assert f"calibrate: all {tasks} tasks are done, nothing to do" in again.stdout
    assert {path.name: path.stat().st_mtime_ns for path in folder.glob("results/*/*.npz")} == results

    wanted = yaml.safe_load((folder / "sampler" / "calibrated.yaml").read_text())
    *_, use = told
    command = use.partition("rllc sweep ")[2].split()
    assert command == ["--config-dir", str(folder), "sampler=calibrated", "name=tiny-calibrated"]
    options = {key: value for key, value in GRID.items() if not key.startswith("sampler.")}
    planned = Job(fresh.root, fresh.text, options).words("stages=[plan]")
    words = [word for word in planned if not word.startswith(("sampler.", "name="))]
    monkeypatch.setattr(sys, "argv", ["rllc", "sweep", *words, *command])
    assert cli.main() == 0
    line = (job.root / "sweeps" / "tiny-calibrated" / "plan.jsonl").read_text().splitlines()[0]
    assert json.loads(line)["task"]["sampler"] == wanted


@pytest.mark.slow
def test_a_large_grid_begins_with_short_chains_and_a_lost_result_is_made_again(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "rates", lambda *_, **__: {})
    large = Job(job.root, job.text, {**GRID, "calibrate.gamma": "[100,200,400]", "calibrate.nbeta": "[30,1000]"})
    folder = large.sweep / "calibration"
    assert calibration.run(composition.compose(large.words())) == 0
    table = {(row["gamma"], row["nbeta"], row["lr"]): row for row in rows(folder / "table.csv")}
    assert len(table) == 12
    halved = {key[:2] for key, row in table.items() if row["fault"].endswith("not in the better half")}
    whole = {key[:2] for key, row in table.items() if row["measured_bias"]}
    assert ("200.0", "30.0") in whole
    assert len(halved) == len(whole) == 3
    assert not halved & whole
    key = min(store.keys(folder))
    value = store.get(folder, key).value
    store.path(folder, key).unlink()
    assert calibration.run(composition.compose(large.words())) == 0
    assert store.get(folder, key).value == value
    assert len(store.keys(folder)) == 12 * 4 + 6 * 12

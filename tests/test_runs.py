import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tiny import MODEL, Job, text

from rllc import composition, making, runs, train
from rllc.config import Config
from rllc.data import rows, tokenizer
from rllc.mistake import Mistake


def config(job: Job, *words: str) -> Config:
    return composition.compose(job.words(*words))


def test_a_run_for_each_seed(fresh: Job) -> None:
    found = runs.named(config(fresh, "train.seeds=[3,1]"))
    assert [(run.name, run.seed) for run in found] == [("tiny-s3", 3), ("tiny-s1", 1)]
    assert found[0].path == fresh.root / "runs" / "tiny-s3"
    assert found[0].tokenizer == found[0].path / "tokenizer.json"


def test_the_steps_are_known_before_the_training(fresh: Job) -> None:
    assert runs.steps(config(fresh)) == {"tiny-s0": [0, 10, 20]}
    assert runs.steps(config(fresh, "grid.steps=[20,0]")) == {"tiny-s0": [20, 0]}
    with pytest.raises(
        Mistake, match=r"^grid.steps: step 150 of run tiny-s0 is not saved; the nearest saved one is 100.$"
    ):
        runs.steps(config(fresh, "grid.steps=[150]", "train.steps=1600", "train.checkpoints.every=100"))


def test_preparing_twice_changes_nothing_and_reads_no_text(fresh: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    making.prepare(config(fresh))
    before = {path: path.stat().st_mtime_ns for path in fresh.root.rglob("*") if path.is_file()}

    def unread(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(making, "train_documents", unread)
    making.prepare(config(fresh))
    assert {path: path.stat().st_mtime_ns for path in fresh.root.rglob("*") if path.is_file()} == before
    assert tokenizer.load(fresh.run_folder / "tokenizer.json").d_vocab == MODEL["d_vocab"]


def test_a_tokenizer_left_by_a_start_that_was_given_up_is_replaced(fresh: Job, tmp_path: Path) -> None:
    other = dataclasses.replace(fresh, text=text(tmp_path / "other.jsonl", seed=1))
    making.prepare(config(other))
    left = (fresh.run_folder / "tokenizer.json").read_bytes()
    (fresh.run_folder / "config.yaml").unlink()
    making.prepare(config(fresh))
    assert (fresh.run_folder / "tokenizer.json").read_bytes() != left
    new = Job(tmp_path / "new", fresh.text)
    making.prepare(config(new))
    for name in ("tokenizer.json", "config.yaml"):
        assert (fresh.run_folder / name).read_bytes() == (new.run_folder / name).read_bytes()


def test_a_run_keeps_its_settings(job: Job) -> None:
    making.prepare(config(job))
    with pytest.raises(
        Mistake, match=r"was trained with other settings: train.batch 4, now 8; choose another run= name.$"
    ):
        making.prepare(config(job, "train.batch=8"))


def test_a_run_keeps_its_tokenizer_and_runs_with_another_do_not_share_it(fresh: Job, tmp_path: Path) -> None:
    given = tmp_path / "given.json"
    tokenizer.train(iter(["some other words of another text, " * 40] * 20), MODEL["d_vocab"] - 20, given)
    making.prepare(config(fresh))
    own = tokenizer.digest(fresh.run_folder / "tokenizer.json")
    with pytest.raises(Mistake, match=rf"was trained with other settings: train.tokenizer.*{given}"):
        making.prepare(config(fresh, f"train.tokenizer={given}"))
    making.prepare(config(fresh, f"train.tokenizer={given}", "run=other"))
    other = tokenizer.load(fresh.root / "runs" / "other-s0" / "tokenizer.json")
    assert other.d_vocab == tokenizer.load(given).d_vocab != MODEL["d_vocab"]
    assert tokenizer.digest(fresh.run_folder / "tokenizer.json") == own


def test_a_mistake_in_the_text_names_the_dataset(fresh: Job, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text"\n')
    with pytest.raises(Mistake, match=rf"^data.files.path: {tmp_path}/bad.jsonl, line 2 is not valid JSON"):
        making.prepare(config(fresh, f"data.files.path={tmp_path}/bad.jsonl"))


def test_no_estimation_row_was_trained_on(job: Job) -> None:
    asked = config(job)
    (planned,), twice = runs.datasets(asked, runs.model(asked))
    pool = np.load(job.root / planned.path)
    training = np.load(runs.training_rows(asked, runs.named(asked)[0]).path)
    assert pool.shape == (32, 16)
    assert not {row.tobytes() for row in pool} & {row.tobytes() for row in training}
    assert planned.rows in planned.path
    assert (twice.name, np.load(job.root / twice.path).shape) == ("repeats", (runs.PREFIX_ROWS, 16))


def test_rows_that_were_trained_on_are_left_out(fresh: Job, tmp_path: Path) -> None:
    """Texts that say one thing again and again give the same rows in both splits."""
    mixed = tmp_path / "mixed.jsonl"
    again = [json.dumps({"text": " to" * count}) for count in range(100, 160)]
    mixed.write_text(fresh.text.read_text() + "\n".join(again) + "\n")
    asked = config(fresh, f"data.files.path={mixed}", "data.files.pool=100000")
    making.prepare(asked)
    (planned,), _ = runs.datasets(asked, runs.model(asked))
    training = {row.tobytes() for row in np.load(runs.training_rows(asked, runs.named(asked)[0]).path)}
    everything = rows.build(
        "files",
        asked.data["files"],
        tokenizer=fresh.run_folder / "tokenizer.json",
        n_ctx=16,
        split="pool",
        folder=tmp_path,
    ).array()
    assert [row.tobytes() for row in everything if row.tobytes() in training]
    assert not [row for row in np.load(fresh.root / planned.path) if row.tobytes() in training]


def test_too_few_rows_for_a_minibatch_are_a_mistake(job: Job) -> None:
    asked = config(job, "sampler.batch=33")
    with pytest.raises(Mistake, match=r"^data.files: its text gives 32 rows"):
        runs.datasets(asked, runs.model(asked))


def test_checkpoints_carry_the_hash_of_their_content(job: Job, tmp_path: Path) -> None:
    asked = config(job)
    found = runs.checkpoints(asked, runs.steps(asked))
    assert [(one.run, one.step, one.path) for one in found] == [
        ("tiny-s0", step, f"runs/tiny-s0/checkpoints/step_{step:07d}.safetensors") for step in (0, 10, 20)
    ]
    assert len({one.weights for one in found}) == 3
    shutil.copytree(job.run_folder, tmp_path / "elsewhere")
    foreign = config(job, f"path={tmp_path}/elsewhere", "run=other")
    again = runs.checkpoints(foreign, runs.steps(foreign))
    assert [one.weights for one in again] == [one.weights for one in found]
    assert [one.path for one in again] == [
        str(tmp_path / "elsewhere" / "checkpoints" / Path(one.path).name) for one in found
    ]
    assert runs.model(foreign) == found[0].model == asked.model


def test_a_run_that_was_not_trained_here(job: Job) -> None:
    foreign = config(job, f"path={job.run_folder}", "run=stdlib")
    (run,) = runs.named(foreign)
    assert (run.name, run.seed, run.path) == ("tiny-s0", None, job.run_folder)
    assert runs.steps(foreign) == {"tiny-s0": [0, 10, 20]}
    assert making.trained(foreign)
    with pytest.raises(
        Mistake, match=r"^grid.steps: step 11 of run tiny-s0 is not saved; the nearest saved one is 10.$"
    ):
        runs.steps(config(job, f"path={job.run_folder}", "run=stdlib", "grid.steps=[11]"))


def test_trained_is_every_checkpoint_of_every_run(job: Job) -> None:
    assert making.trained(config(job))
    (job.run_folder / "checkpoints" / "step_0000010.safetensors").unlink()
    assert not making.trained(config(job))


def test_two_that_train_one_run(job: Job) -> None:
    from rllc import atomic

    (job.run_folder / "checkpoints" / "step_0000010.safetensors").unlink()
    with atomic.owner(job.run_folder, "run"), pytest.raises(Mistake, match=r"^run: .*tiny-s0 is in use by process"):
        making.fit(config(job))


def test_the_tokenizer_of_a_run_belongs_to_its_settings(job: Job, tmp_path: Path) -> None:
    texts = text(tmp_path / "other.jsonl", seed=1).read_text().splitlines()
    tokenizer.train(texts, 300, job.run_folder / "tokenizer.json")
    with pytest.raises(Mistake, match="was trained with other settings: tokenizer "):
        making.prepare(config(job))


def test_the_rows_of_a_run_are_found_from_its_folder(job: Job) -> None:
    import yaml

    settings = yaml.safe_load((job.run_folder / "config.yaml").read_text())
    assert np.load(job.run_folder / settings["rows"]).shape[1] == MODEL["n_ctx"]
    assert settings["tokenizer"] == tokenizer.digest(job.run_folder / "tokenizer.json")
    assert train.saved_steps(config(job).train.checkpoints, settings["train"]["steps"]) == [0, 10, 20]
    assert (
        rows.put("files", np.load(job.run_folder / settings["rows"]), job.root / "data").path.name
        == Path(settings["rows"]).name
    )

import dataclasses
import math
from pathlib import Path

import pytest
import yaml
from pyarrow import parquet
from tiny import MODEL, Job

from rllc import after, composition, derive, launch, runs, store, sweep
from rllc.config import Config
from rllc.mistake import Mistake, Unfinished


def config(job: Job, *words: str) -> Config:
    return composition.compose(job.words(*words))


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Time and content of every file."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_folder_of_a_sweep(fresh: Job) -> None:
    assert sweep.folder(config(fresh)) == fresh.root / "sweeps" / "tiny"
    assert sweep.folder(config(fresh, "input=/somewhere/curves.csv")) == fresh.root / "sweeps" / "curves"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["grid.parts=[L9H0]"], "grid.parts: 'L9H0'"),
        (["grid.steps=[1]"], "grid.steps: step 1"),
        (
            ["grid.metrics=[path_patching]", "grid.parts=[L0H0]"],
            r"grid.metrics: \['path_patching'\] measure nothing of grid.parts \['L0H0'\]; ",
        ),
        (["grid.metrics=[prefix]", "grid.parts=['*']"], r"grid.metrics: \['prefix'\] measure nothing of grid.parts"),
        (["grid.metrics=[q_composition]", "grid.parts=[embed]"], r"grid.metrics: \['q_composition'\] measure nothing"),
        (["cluster.k=9"], "cluster.k: 9 is more than the 3 parts"),
        (["data.files.path=/missing.txt"], "data.files.path: '/missing.txt'"),
    ],
)
def test_what_can_be_known_is_checked_before_any_work(words: list[str], sentence: str, fresh: Job) -> None:
    with pytest.raises(Mistake, match=f"^{sentence}"):
        sweep.run(config(fresh, *words))
    assert not fresh.root.exists()


def test_the_plan_records_what_was_asked_and_what_code_ran(job: Job) -> None:
    asked = config(job)
    sweep.make_plan(asked, runs.steps(asked))
    stored = yaml.safe_load((job.sweep / "config.yaml").read_text())
    assert stored == dataclasses.asdict(asked)
    environment = yaml.safe_load((job.sweep / "env.json").read_text())
    assert set(environment) == {"code", "python", "packages"}


def test_planning_again_changes_nothing_and_more_seeds_grow_the_plan(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = config(job)
    sweep.make_plan(asked, runs.steps(asked))
    before = files(job.sweep)
    sweep.make_plan(asked, runs.steps(asked))
    assert files(job.sweep) == before
    more = config(job, "grid.seeds=[0,1]")
    sweep.make_plan(more, runs.steps(more))
    cells = 2 * MODEL["n_heads"] * 3
    assert capsys.readouterr().out.splitlines() == [
        f"plan: {4 * cells} tasks, {4 * cells} of them new",
        f"plan: {4 * cells} tasks, 0 of them new",
        f"plan: {5 * cells} tasks, {cells} of them new",
    ]


def test_a_training_that_fails_is_unfinished(fresh: Job) -> None:
    asked = config(fresh, "train.lr=1e30", "train.warmup=0", "train.clip=1e30")
    with pytest.raises(Unfinished, match=r"^training of tiny-s0 did not finish"):
        sweep.train(asked)


@pytest.mark.parametrize("verb", [derive.gather_results, derive.cluster, derive.draw])
def test_a_sweep_that_is_not_there(verb: object, fresh: Job) -> None:
    with pytest.raises(Mistake, match=r"^name: "):
        verb(config(fresh))  # type: ignore[operator]


@pytest.mark.parametrize(("code", "given"), [(0, 0), (1, 1), (75, 1), (143, 1)])
def test_the_code_of_a_worker_is_not_the_code_of_the_sweep(
    code: int, given: int, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = config(job)
    sweep.make_plan(asked, runs.steps(asked))
    monkeypatch.setattr(launch, "sweep", lambda *_, **__: code)
    monkeypatch.setattr(after, "verdict", lambda *_: 0)
    with sweep.collector(asked) as collector:
        assert sweep.work(asked, collector) == given


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Job:
    """A whole sweep; not to be changed."""
    job = Job(tmp_path_factory.mktemp("swept") / "root", corpus, {"launch.workers": 2, "cluster.k": 2})
    done = job.do("sweep")
    assert done.returncode == 0, done.stderr
    return job


@pytest.mark.slow
def test_a_whole_sweep_leaves_what_the_design_says(swept: Job) -> None:
    for name in (
        "plan.jsonl", "config.yaml", "env.json", "estimates.parquet", "traces.parquet", "training.parquet",
        "clusters/labels.csv", "clusters/scores.csv", "report/index.html",
    ):  # fmt: skip
        assert (swept.sweep / name).stat().st_size > 0, name
    assert list((swept.sweep / "report").glob("*.png"))
    assert not list(swept.root.rglob("*.tmp"))
    assert not list(swept.root.rglob("owner.json"))
    table = parquet.read_table(swept.sweep / "estimates.parquet").to_pylist()
    assert len(table) == 4 * 2 * MODEL["n_heads"] * 3
    assert all(math.isfinite(row["value"]) for row in table)
    assert all(row["error"] > 0 for row in table if row["metric"] == "llc")
    assert {row["key"] for row in table} == store.keys(swept.sweep)


@pytest.mark.slow
def test_a_second_sweep_does_nothing_and_says_so(swept: Job) -> None:
    before, whole = files(swept.sweep), {name: content for name, (_, content) in files(swept.root).items()}
    done = swept.do("sweep")
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[:6] == [
        "train: tiny-s0: nothing to do", "plan: 72 tasks, 0 of them new",
        "chains: all 72 tasks are done, nothing to do", "gather: nothing to do", "cluster: nothing to do",
        "report: nothing to do",
    ]  # fmt: skip
    assert files(swept.sweep) == before
    assert {name: content for name, (_, content) in files(swept.root).items()} == whole


@pytest.mark.slow
def test_what_is_derived_can_be_deleted_and_made_again(swept: Job, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(swept.root, tmp_path / "root")
    copy = dataclasses.replace(swept, root=tmp_path / "root")
    tables = {name: (copy.sweep / name).read_bytes() for name in ("estimates.parquet", "clusters/labels.csv")}
    for name in ("estimates.parquet", "training.parquet"):
        (copy.sweep / name).unlink()
    shutil.rmtree(copy.sweep / "clusters")
    shutil.rmtree(copy.sweep / "report")
    for verb in ("gather", "cluster", "report"):
        done = copy.do(verb)
        assert done.returncode == 0, done.stderr
    assert {name: (copy.sweep / name).read_bytes() for name in tables} == tables
    assert (copy.sweep / "report" / "index.html").exists()


@pytest.mark.slow
def test_a_multirun_makes_two_sweeps(job: Job) -> None:
    done = job.do("sweep", "-m", "sampler.gamma=100,200", "stages=[plan,launch]", "grid.metrics=[llc]")
    assert done.returncode == 0, done.stderr
    found = sorted(path.name for path in (job.root / "sweeps").iterdir() if path.is_dir())
    assert len(found) == 2
    assert "sampler.gamma=100" in found[0]
    assert "sampler.gamma=200" in found[1]
    for name in found:
        assert len(store.keys(job.root / "sweeps" / name)) == 2 * MODEL["n_heads"] * 3
    assert not store.keys(job.root / "sweeps" / found[0]) & store.keys(job.root / "sweeps" / found[1])


@pytest.mark.slow
def test_diverged_chains_fail_the_sweep_and_are_named(job: Job) -> None:
    done = job.do("sweep", "sampler.nbeta=1e30", "grid.metrics=[llc]")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "18 of 18 tasks done, 0 missing, 0 failed, 18 diverged" in done.stderr
    assert "diverged: llc of L0H0 on files at step 0 of tiny-s0, seed 0" in done.stderr
    assert "rllc: no clusters: " in done.stderr
    assert "L0H0/files/0 (no number)" in done.stderr
    assert not (job.sweep / "clusters").exists()
    told = job.do("status")
    assert told.returncode == 1
    assert "18 diverged" in told.stdout
    alone = job.do("cluster", "sampler.nbeta=1e30", "grid.metrics=[llc]")
    assert alone.returncode == 2
    assert "L0H0/files/0 (no number)" in alone.stderr


@pytest.mark.slow
@pytest.mark.parametrize("all_of_them", [False, True])
def test_a_poisoned_task_is_recorded_and_the_others_finish(all_of_them: bool, job: Job) -> None:
    assert job.do("sweep", "stages=[plan]").returncode == 0
    checkpoints = job.run_folder / "checkpoints"
    broken = sorted(checkpoints.iterdir()) if all_of_them else [checkpoints / "step_0000010.safetensors"]
    whole = {file: file.read_bytes() for file in broken}
    for file in broken:
        file.write_bytes(whole[file][:-40])
    done = job.do("sweep", "stages=[launch,gather,cluster,report]")
    failed = 24 * len(broken)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert f"{72 - failed} of 72 tasks done, 0 missing, {failed} failed, 0 diverged" in done.stderr
    told = job.do("status")
    assert told.returncode == 1
    assert "failed: llc of L0H0 on files at step" in told.stdout
    assert "is not a whole safetensors file" in told.stdout
    assert len(list(job.sweep.glob("errors/*/*.txt"))) == failed
    for file in broken:
        file.write_bytes(whole[file])
    again = job.do("sweep")
    assert again.returncode == 0, again.stderr
    assert list(job.sweep.glob("errors/*/*.txt")) == []


@pytest.mark.slow
def test_a_grown_sweep_keeps_its_old_numbers(job: Job) -> None:
    stages = "stages=[plan,launch,gather]"
    assert job.do("sweep", stages, "grid.steps=[0,20]").returncode == 0
    before = files(job.sweep / "results")
    done = job.do("sweep", stages, "grid.seeds=[0,1]")
    assert done.returncode == 0, done.stderr
    after = files(job.sweep / "results")
    assert {name: after[name] for name in before} == before
    assert len(after) == 72 + 18
    assert parquet.read_table(job.sweep / "estimates.parquet").num_rows == 90

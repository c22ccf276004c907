"""The whole way, with a Slurm that only writes down what it is asked; the scripts are run by hand."""

import os
import re
import subprocess
from contextlib import suppress
from pathlib import Path

import drill
import pytest
from pretended import Site
from test_plan import cells
from tiny import Job, same

from rllc import after, composition, plan, store, submitting
from rllc.launch import submission
from rllc.launch.submission import Submission
from rllc.mistake import Mistake

WORDS = ("launch=slurm", "launch.shards=3", "launch.running=2")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return drill.fresh(tmp_path / "job")


def bash(script: Path, folder: Path, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a script as Slurm does: from the folder in which it was submitted."""
    return subprocess.run(
        ["bash", str(script), *words], cwd=folder, env=os.environ | environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_from_the_dry_run_to_the_report_of_the_dependent_job(job: Job, site: Site, tmp_path: Path) -> None:
    folder = job.root.parent
    rehearsed = job.do("sweep", *WORDS, "launch.dry_run=true")
    assert rehearsed.returncode == 0, rehearsed.stderr
    assert not (job.sweep / "plan.jsonl").exists()
    tested = (site.folder / "tested").read_text()
    assert rehearsed.stdout.startswith(tested)
    told = "slurm: 3 shards in 1 array, 2 at once; the site would take this: Job 1 to start at noon"
    assert f"{told}\nsweep: {drill.TASKS} tasks, 0 of them done" in rehearsed.stdout
    assert rehearsed.stdout.endswith("nothing was started\n")

    done = job.do("sweep", *WORDS)
    assert done.returncode == 0, done.stderr
    (found,) = submission.found(job.sweep)
    assert (found.folder / "array.sbatch").read_text() == tested
    assert f"slurm: {drill.TASKS} tasks in 3 shards: array 101, gather 102\n" in done.stdout
    assert "cancel    scancel 101 102\n" in done.stdout
    assert re.search(rf"watch     rllc status name=tiny root={job.root}    or squeue -r -j 101,102\n", done.stdout)
    assert re.search(r"resume    rllc sweep .*launch=slurm launch.shards=3 launch.running=2\n", done.stdout)
    assert store.keys(job.sweep) == set()

    site.queue("101_0", "101_1", "101_2", "102", state="PENDING")
    again = job.do("sweep", *WORDS)
    assert again.returncode == 0
    assert f"slurm: all {drill.TASKS} missing tasks are queued or run, nothing to submit" in again.stdout
    seen = job.do("status")
    assert seen.returncode == 1
    assert f"0 of {drill.TASKS} tasks done" in seen.stdout
    assert "slurm: elements 3 pending (job 101)" in seen.stdout

    for element in ("0", "2"):
        ran = bash(found.folder / "array.sbatch", folder, SLURM_ARRAY_TASK_ID=element, SLURM_ARRAY_JOB_ID="101")
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    early = bash(found.folder / "gather.sbatch", folder)
    assert early.returncode == 1
    missing = drill.TASKS - len(store.keys(job.sweep))
    assert f"rllc: {missing} of {drill.TASKS} results are missing." in early.stderr
    site.queue()
    rest = job.do("sweep", *WORDS)
    assert f"slurm: {missing} tasks in " in rest.stdout
    second = submission.found(job.sweep)[1]
    for element in range(second.shards):
        bash(second.folder / "array.sbatch", folder, SLURM_ARRAY_TASK_ID=str(element), SLURM_ARRAY_JOB_ID="103")
    late = bash(second.folder / "gather.sbatch", folder)
    assert late.returncode == 0, late.stderr
    local = drill.fresh(tmp_path / "local")
    assert local.do("sweep").returncode == 0
    same(job, local)
    whole = job.do("sweep", *WORDS)
    assert f"chains: all {drill.TASKS} tasks are done, nothing to do" in whole.stdout


@pytest.mark.slow
def test_a_copy_of_the_code_is_what_runs(job: Job, site: Site) -> None:
    assert job.do("sweep", *WORDS, "launch.snapshot=true", "launch.shards=1").returncode == 0
    (found,) = submission.found(job.sweep)
    copy = found.folder / "code" / "rllc"
    code = (copy / "code.txt").read_text()
    (copy / "code.txt").write_text("the copy")
    ran = bash(found.folder / "array.sbatch", job.root.parent, SLURM_ARRAY_TASK_ID="0")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert {store.get(job.sweep, key).code for key in store.keys(job.sweep)} == {"the copy"}
    assert code
    assert site.asked("srun")


@pytest.mark.slow
def test_what_the_site_refuses_leaves_the_sweep_as_it_was(job: Job, site: Site) -> None:
    site.answer("refuse", "array.sbatch")
    site.answer("why", "Invalid account or account/partition combination specified")
    done = job.do("sweep", *WORDS, "launch.account=nobody")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "rllc: launch: Slurm refuses array.sbatch: Batch job submission failed: Invalid account or account/partition "
        "combination specified; nothing is submitted."
    )
    assert not (job.sweep / "owner.json").exists()
    assert submission.found(job.sweep) == []


def left(sweep: Path, number: int, code: int | None, gather: str | None = "9") -> None:
    """A submission whose job that gathers left this code."""
    folder = sweep / "slurm" / f"{number:03}"
    folder.mkdir(parents=True)
    submission.write(Submission(folder, ["1"], [0], 1, 1, "", str(folder / "logs"), gather))
    if code is not None:
        (folder / after.CODE).write_text(f"{code}\n")


@pytest.mark.parametrize(
    ("codes", "expected"),
    [([], 0), ([0], 0), ([1], 1), ([2], 2), ([1, 0], 0), ([0, 2], 2), ([None], 1), ([0, None], 1)],
)
def test_what_the_job_that_gathered_last_says_counts(codes: list[int | None], expected: int, tmp_path: Path) -> None:
    for number, code in enumerate(codes, 1):
        left(tmp_path, number, code)
    assert submitting.gathered(tmp_path, late=0.0) == expected


@pytest.mark.parametrize(("verdict", "gathered", "code"), [(0, 0, 0), (1, 0, 1), (0, 1, 1), (1, 2, 2)])
def test_the_code_of_the_wait_is_the_worse_one(
    verdict: int, gathered: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(tmp_path / "sweeps" / "x", 1, gathered)
    (tmp_path / "sweeps" / "x" / "plan.jsonl").touch()
    monkeypatch.setattr(submitting, "wait", lambda *_: None)
    monkeypatch.setattr(after, "verdict", lambda _: verdict)
    monkeypatch.setattr(plan, "required", lambda _: [])
    assert submitting.follow(composition.compose([f"root={tmp_path}", "name=x"])) == code


def test_ctrl_c_ends_the_wait_and_says_that_the_jobs_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(submitting, "wait", stopped)
    monkeypatch.setattr(plan, "required", lambda _: [])
    with pytest.raises(SystemExit) as caught:
        submitting.follow(composition.compose([f"root={tmp_path}", "name=x"]))
    assert caught.value.code == 130
    assert "rllc: the jobs go on" in capsys.readouterr().err


def test_the_job_leaves_its_code_whatever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["after", str(tmp_path)])
    for happens, code in ((0, 0), (1, 1), (Mistake("no"), 2), (ValueError("bug"), 1)):

        def job(_: Path, happens: int | Exception = happens) -> int:
            if isinstance(happens, Exception):
                raise happens
            return happens

        monkeypatch.setattr(after, "job", job)
        with suppress(ValueError):
            assert after.main() == code
        assert (tmp_path / after.CODE).read_text() == f"{code}\n"


@pytest.mark.parametrize(("steps", "code"), [((0,), 1), ((0, 100), 2)])
def test_of_one_step_no_curve_is_made_and_that_is_no_mistake(
    steps: tuple[int, ...], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = composition.compose([f"root={tmp_path}", "name=x"])
    plan.write(tmp_path / "sweeps" / "x", cells(*steps))

    def refuse(*_: object) -> None:
        raise Mistake("a curve needs two steps or more")

    monkeypatch.setattr(after, "cluster", refuse)
    if code == 1:
        assert after.finish(config, ["cluster"], {}) == 1
    else:
        with pytest.raises(Mistake):
            after.finish(config, ["cluster"], {})


def test_without_sbatch_nothing_is_begun(job: Job, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = job.do("sweep", *WORDS)
    assert done.returncode == 2
    assert done.stderr == (
        "rllc: launch: 'slurm' needs sbatch, which is not on PATH here; launch=local runs on this machine.\n"
    )
    assert not job.sweep.exists()

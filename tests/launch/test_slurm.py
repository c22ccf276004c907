import dataclasses
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from pretended import Site
from test_plan import cells

from rllc import composition, following, plan, store
from rllc.config import Slurm
from rllc.launch import queue, report, slurm, submission
from rllc.launch.slurm import Beside
from rllc.launch.submission import Submission
from rllc.launch.wait import wait
from rllc.mistake import Mistake, Unfinished
from rllc.plan import Cell


def settings(*words: str) -> Slurm:
    found = composition.compose(["launch=slurm", *words]).launch
    assert isinstance(found, Slurm)
    return found


def submit(sweep: Path, whole: Sequence[Cell], *words: str, beside: Beside = Beside()) -> Submission | None:
    """What `rllc sweep` does with a plan."""
    left, waiting = slurm.missing(sweep, whole)
    if not left:
        return None
    return slurm.submit(sweep, left, settings(*words), waiting=waiting, beside=beside)


def finish(sweep: Path, chosen: Sequence[Cell]) -> None:
    """Let results be there, for those who look at names only."""
    for cell in chosen:
        file = store.path(sweep, cell.task.key)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def keys(found: Submission, *elements: int) -> list[str]:
    return [cell.task.key for cell in submission.cells(found, elements or range(found.shards))]


def test_what_is_submitted_is_the_plan_in_shards_and_is_written_down(tmp_path: Path, site: Site) -> None:
    whole = cells(0, 100, 200)
    found = submit(tmp_path, whole, "launch.shards=4", "launch.running=3")
    assert found
    assert keys(found) == [cell.task.key for cell in whole]
    assert (found.shards, found.tasks, found.jobs, found.offsets) == (4, len(whole), ["101"], [0])
    folder = tmp_path / "slurm" / "001"
    assert sorted(file.name for file in (folder / "shards").iterdir()) == [f"{n:04}.jsonl" for n in range(4)]
    assert site.asked("sbatch") == [f"--parsable --array=0-3%3 {folder}/array.sbatch 0"]
    assert submission.found(tmp_path) == [found]
    assert json.loads((folder / "submission.json").read_text())["jobs"] == ["101"]
    assert found.cluster == "fake"


@pytest.mark.parametrize("most", [1, 3, 4, 10, 11])
def test_arrays_are_no_longer_than_the_site_allows_and_share_the_running_ones(
    most: int, tmp_path: Path, site: Site
) -> None:
    site.answer("max", str(most))
    found = submit(tmp_path, cells(0, 100, 200), "launch.shards=10", "launch.running=7")
    assert found
    lengths = [stop - start for start, stop in pairwise([*found.offsets, found.shards])]
    assert found.shards == sum(lengths) == 10
    assert max(lengths) <= most
    assert max(lengths) - min(lengths) <= 1
    assert len(lengths) == -(-10 // most)
    asked = [line.split() for line in site.asked("sbatch")]
    assert [words[1].partition("%")[0] for words in asked] == [f"--array=0-{length - 1}" for length in lengths]
    assert [words[3] for words in asked] == [str(offset) for offset in found.offsets]
    running = [int(words[1].partition("%")[2]) for words in asked]
    assert sum(running) == max(7, len(lengths))


@pytest.mark.usefixtures("site")
def test_an_element_of_several_workers_has_a_shard_for_each(tmp_path: Path) -> None:
    found = submit(tmp_path, cells(0, 100, 200), "launch.shards=2", "launch.gpus=2", "launch.workers_per_gpu=2")
    assert found
    assert found.shards == 2
    names = [file.name for file in submission.files(found, 1)]
    assert names == [f"0001-{worker}.jsonl" for worker in range(4)]
    assert keys(found) == [cell.task.key for cell in cells(0, 100, 200)]


def test_a_thousand_elements_more_are_not_taken_for_one(tmp_path: Path) -> None:
    found = Submission(tmp_path, ["1"], [0], 10_001, 3, "", "")
    whole = cells(0)
    for name, cell in (("1000", whole[0]), ("10000", whole[1])):
        plan.write_lines(tmp_path / "shards" / f"{name}.jsonl", [cell])
    assert keys(found, 1000) == [whole[0].task.key]


def test_a_second_submission_is_what_is_neither_done_nor_queued_nor_running(tmp_path: Path, site: Site) -> None:
    whole = cells(0, 100, 200)
    first = submit(tmp_path, whole, "launch.shards=4")
    assert first
    done = whole[:2]
    finish(tmp_path, done)
    site.queue("101_1", "101_2", "77_0", "101")
    alive = {*keys(first, 1, 2)}
    left, waiting = slurm.missing(tmp_path, whole)
    assert waiting == alive - {cell.task.key for cell in done}
    gone = {cell.task.key for cell in whole} - alive - {cell.task.key for cell in done}
    assert {cell.task.key for cell in left} == gone
    second = submit(tmp_path, whole, "launch.shards=2")
    assert second
    assert set(keys(second)) == gone
    site.queue("101_1", "101_2", "102_0", "102_1", state="PENDING", reason="Resources")
    assert submit(tmp_path, whole) is None
    assert len(site.asked("sbatch")) == 2


def test_what_is_said_of_a_second_submission_cancels_the_first_too(tmp_path: Path, site: Site) -> None:
    whole = cells(0, 100)
    beside = Beside(after="name: x\n")
    assert submit(tmp_path, whole, "launch.shards=1", beside=beside)
    site.queue("102", "77_0")  # its array has ended, the job that gathers has not
    before = slurm.alive(tmp_path)
    second = submit(tmp_path, whole[:1], "launch.shards=1", beside=beside)
    assert second
    told = slurm.describe(second, before=before, words=["name=x"], again="rllc sweep").splitlines()
    assert told[0] == "slurm: 1 task in 1 shard: array 103, gather 104"
    assert told[3].endswith("squeue -r -j 102,103,104")
    assert told[4] == "cancel    scancel 102 103 104"


def test_elements_of_another_cluster_with_the_same_number_are_not_ours(tmp_path: Path, site: Site) -> None:
    whole = cells(0)
    first = submit(tmp_path, whole, "launch.shards=1")
    assert first
    submission.write(dataclasses.replace(first, cluster="other"))
    site.queue("101_0")
    assert len(slurm.missing(tmp_path, whole)[0]) == len(whole)


def test_errors_of_what_is_submitted_are_forgotten_and_those_of_what_runs_are_not(tmp_path: Path, site: Site) -> None:
    whole = cells(0, 100)
    first = submit(tmp_path, whole, "launch.shards=2")
    assert first
    one, other = keys(first, 0)[0], keys(first, 1)[0]
    store.put_error(tmp_path, one, "it failed\n")
    store.put_error(tmp_path, other, "it failed\n")
    site.queue("101_1")
    assert submit(tmp_path, whole)
    assert store.errors(tmp_path) == {other: "it failed"}


def test_where_squeue_does_not_answer_nothing_is_submitted_twice(tmp_path: Path, site: Site) -> None:
    assert submit(tmp_path, cells(0))
    (site.folder / "queue").unlink()
    with pytest.raises(Unfinished, match=r"^squeue does not answer"):
        submit(tmp_path, cells(0))
    assert len(site.asked("sbatch")) == 1


@pytest.mark.parametrize(
    ("refused", "cancelled"), [("array.sbatch 0", []), ("array.sbatch 5", ["101"]), ("gather", ["101 102"])]
)
def test_what_slurm_refuses_is_told_and_nothing_stays_submitted(
    refused: str, cancelled: list[str], tmp_path: Path, site: Site
) -> None:
    site.answer("max", "5")
    site.answer("refuse", refused)
    site.answer("why", "Invalid partition name specified")
    with pytest.raises(Mistake) as caught:
        submit(tmp_path, cells(0, 100, 200), "launch.shards=10", beside=Beside(after="name: x\n"))
    script = "gather.sbatch" if refused == "gather" else "array.sbatch"
    assert str(caught.value) == (
        f"launch: Slurm refuses {script}: Batch job submission failed: Invalid partition name specified; nothing is "
        "submitted."
    )
    assert site.asked("scancel") == cancelled
    assert submission.found(tmp_path) == []
    assert not list((tmp_path / "slurm").iterdir())


def test_a_controller_that_is_away_is_not_the_users_mistake(tmp_path: Path, site: Site) -> None:
    site.answer("refuse", "array")
    site.answer("why", "Unable to contact slurm controller (connect failure)")
    with pytest.raises(Unfinished, match="Unable to contact slurm controller"):
        submit(tmp_path, cells(0))


def test_without_sbatch_the_other_launch_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Mistake, match=r"^launch: 'slurm' needs sbatch, which is not on PATH here; launch=local "):
        slurm.check()


def test_jobs_of_an_allocation_are_submitted_without_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    assert "SLURM_JOB_ID" not in queue.environment()
    assert queue.environment()["SLURM_CONF"] == "/etc/slurm.conf"


def test_the_jobs_beside_wait_for_the_arrays_or_run_with_them(tmp_path: Path, site: Site) -> None:
    site.answer("max", "2")
    beside = Beside(after="name: x\n", track=["rllc.following", "/a sweep", "{}"])
    found = submit(tmp_path, cells(0, 100), "launch.shards=4", "launch.gpus=1", "+launch.env.A=b", beside=beside)
    assert found
    assert (found.jobs, found.gather, found.track) == (["101", "102"], "103", "104")
    gather, track = ((found.folder / f"{name}.sbatch").read_text() for name in ("gather", "track"))
    assert "#SBATCH --dependency=afterany:101:102\n" in gather
    assert "gpus" not in gather + track
    assert f"-m rllc.after {found.folder}\n" in gather
    assert "-m rllc.following '/a sweep' '{}'\n" in track
    assert "export A=b\n" in gather
    assert "dependency" not in track
    assert (found.folder / "config.yaml").read_text() == "name: x\n"


@pytest.mark.parametrize("silent", ["now", "then"])
def test_a_controller_that_does_not_say_its_name_makes_no_task_run_twice(
    silent: str, tmp_path: Path, site: Site
) -> None:
    whole = cells(0, 100)
    most = (site.folder / "max").read_text()
    if silent == "then":
        (site.folder / "max").unlink()
    assert submit(tmp_path, whole, "launch.shards=2")
    site.answer("max", most)
    site.queue("101_0", "101_1")
    if silent == "now":
        (site.folder / "max").unlink()
    assert submit(tmp_path, whole) is None


def test_jobs_of_another_cluster_with_the_same_number_are_none_of_ours(tmp_path: Path, site: Site) -> None:
    whole = cells(0)
    found = submit(tmp_path, whole, "launch.shards=2")
    assert found
    submission.write(dataclasses.replace(found, cluster="elsewhere"))
    site.queue("101_0", "101_1")
    assert report.look(tmp_path, len(whole)).workers == 0
    assert following.working(tmp_path) is None
    wait(tmp_path, {cell.task.key for cell in whole})  # returns


def test_who_is_queued_works_on_a_sweep_but_the_follower_itself_does_not(tmp_path: Path, site: Site) -> None:
    found = submit(tmp_path, cells(0), beside=Beside(after="name: x\n", track=["rllc.following", "s", "{}"]))
    assert found
    seen = {}
    for queued in ("101_0", found.gather, found.track, "77"):
        site.queue(queued)
        seen[queued] = following.working(tmp_path)
    assert list(seen.values()) == [True, True, None, None]
    (site.folder / "queue").unlink()  # squeue does not answer: they may all be there
    assert following.working(tmp_path) is True


def test_status_says_what_runs_waits_is_held_and_is_in_no_job(tmp_path: Path, site: Site) -> None:
    whole = cells(0, 100, 200)
    assert report.look(tmp_path, len(whole)).lines == []
    found = submit(tmp_path, whole, "launch.shards=4", "launch.workers_per_gpu=2")
    assert found
    site.answer("queue", "101|0|RUNNING|None\n101|1|PENDING|JobHeldUser\n101|2|PENDING|Resources\n")
    seen = report.look(tmp_path, len(whole))
    left = len(keys(found, 3))
    assert seen.workers == 2
    assert seen.lines == [
        "slurm: elements 2 pending, 1 running (job 101)",
        "slurm: 1 is held: scontrol release 101_1",
        f"slurm: {left} of the missing tasks are in none of them; the same rllc sweep submits them",
    ]
    asked = len(site.asked("squeue"))
    assert report.look(tmp_path, 0).lines == []
    assert len(site.asked("squeue")) == asked


def test_status_without_squeue_and_after_the_end(tmp_path: Path, site: Site) -> None:
    found = submit(tmp_path, cells(0), "launch.shards=2")
    assert found
    over = "slurm: no element of this sweep is queued or runs"
    trace = "left no trace in"
    lines = report.look(tmp_path, 3).lines
    assert lines[0] == f"{over}; the same rllc sweep submits what is missing"
    assert trace in lines[1]
    (found.folder / "attempts").mkdir()
    (found.folder / "attempts" / "0000.jsonl").touch()
    site.answer("sacct", "COMPLETED\nCANCELLED by 0\nCOMPLETED\n")
    assert report.look(tmp_path, 3).lines == [
        f"{over} (1 CANCELLED, 2 COMPLETED); the same rllc sweep submits what is missing"
    ]
    (site.folder / "queue").unlink()
    assert report.look(tmp_path, 3).lines == ["slurm: squeue does not answer; what is said above is from the files"]

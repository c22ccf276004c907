import dataclasses
import sys
import time

import pytest
from small import STEPS, WANDB, expected, plan, row, scrambled, trained, training

from rllc import track
from rllc.config import Track
from rllc.mistake import Mistake
from rllc.track import feed, points

NONE = Track("none", "rllc", None, "auto")


def collector(sweep, tasks, trainings=()):
    made = track.Collector(sweep, WANDB, dict(trainings))
    made.expect(tasks)
    return made


def nothing():
    return {}, []


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_rows_gives_the_curves_in_step_order(sweep, recorder, seed):
    made = collector(sweep, plan())
    for one in scrambled(plan(), seed):
        made.update([one])
        made.update([one])
    assert [type(item) for item in recorder.items].count(points.Plan) == 1
    assert isinstance(recorder.items[0], points.Plan)
    for dataset in ("pile", "code"):
        logged = recorder.points(dataset)
        assert [{"step": item.step, **item.values} for item in logged] == expected(dataset)
        assert all(item.whole for item in logged)


def test_the_hash_of_a_plan_knows_its_cells_and_not_their_order(sweep, recorder):
    for tasks in (plan(), plan()[::-1], plan(STEPS[:2])):
        collector(sweep, tasks).update([row(task) for task in tasks])
    digests = [item.digest for item in recorder.items if isinstance(item, points.Plan)]
    assert digests[0] == digests[1] != digests[2]


def test_a_step_waits_for_its_cells_and_for_the_steps_before(sweep, recorder):
    tasks = [task for task in plan() if task.dataset == "pile"]
    made = collector(sweep, tasks)
    made.update(row(task) for task in tasks[1:])
    assert recorder.items == []
    made.update([row(tasks[0])])
    assert recorder.steps("pile") == STEPS


def test_a_failed_cell_is_waited_for_no_longer(sweep, recorder):
    tasks = [task for task in plan() if task.dataset == "pile"]
    made = collector(sweep, tasks)
    made.update([row(task) for task in tasks[1:]], failed=[tasks[0].key])
    assert recorder.steps("pile") == STEPS
    assert "rllc/L0H0" not in recorder.points("pile")[0].values
    assert [item.whole for item in recorder.points("pile")] == [False, True, True, True]
    made.update([row(tasks[0])])
    assert recorder.steps("pile") == STEPS


def test_finish_logs_what_is_incomplete_then_the_last_loss_and_then_the_sweep(sweep, recorder):
    tasks = [task for task in plan() if task.dataset == "pile"]
    made = collector(sweep, tasks, {"run": trained(sweep.parent.parent)})
    made.update(row(task) for task in tasks[::2])
    assert recorder.items == []
    labels = [{"part": "L0H0", "label": 1}]
    assert made.finish(lambda: ({"labels": labels, "empty": []}, [sweep / "report" / "curves.png"]))
    assert recorder.steps("pile") == STEPS
    assert [{"step": item.step, **item.values} for item in recorder.points("")] == training()
    overview = points.Overview({"labels": labels}, ["report/curves.png"], ["estimates.parquet"])
    assert recorder.items[-1] == overview


def test_a_collector_that_is_told_nothing_shows_nothing(sweep, recorder):
    made = collector(sweep, plan(), {"run": trained(sweep.parent.parent)})
    assert made.finish(lambda: pytest.fail("nothing is shown"))
    assert recorder.items == []


def test_a_training_alone_has_no_run_of_the_sweep(sweep, recorder):
    made = track.Collector(sweep, WANDB, {"run": trained(sweep.parent.parent)})
    made.watch()
    assert made.finish(lambda: pytest.fail("there are no curves"))
    assert recorder.steps("") == [0, 10, 200]


def test_without_wandb_tracking_is_a_mistake(sweep, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(Mistake, match=r"track=wandb: wandb is not installed; pip install 'rllc\[wandb\]'"):
        track.Collector(sweep, WANDB, {})
    track.check(NONE)


@pytest.mark.parametrize("how", ["none", "disabled"])
def test_no_tracking_leaves_no_trace(sweep, monkeypatch, how):
    if how == "disabled":
        monkeypatch.setenv("WANDB_MODE", "disabled")
    made = track.Collector(sweep, NONE if how == "none" else WANDB, {"run": trained(sweep.parent.parent)})
    made.expect(plan())
    made.update(scrambled(plan()))
    made.watch()
    assert made.finish(nothing)
    assert not (sweep / "wandb").exists()


def test_an_unwritable_folder_warns_once(sweep, capfd):
    (sweep / "wandb").write_text("in the way")
    with collector(sweep, plan()) as made:
        for one in scrambled(plan()):
            made.update([one])
        assert not made.alive
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1
    assert "W&B cannot write to" in said[0]


def test_a_writer_that_hangs_delays_nothing(sweep, monkeypatch, capfd):
    deaf = sweep / "deaf"
    deaf.write_text("#!/bin/sh\nexec sleep 60\n")
    deaf.chmod(0o755)
    monkeypatch.setattr(feed.sys, "executable", str(deaf))
    made = collector(sweep, plan())
    begun = time.monotonic()
    made.update(scrambled(plan()))
    for _ in range(20):
        made._sink.log(points.Overview({"wide": [{"x": "y" * 100_000}]}, [], []))
    assert time.monotonic() - begun < 1
    assert not made.close(0.5)
    made.close()
    assert time.monotonic() - begun < 3
    assert capfd.readouterr().err.count("was stopped") == 1


def test_all_options_have_their_place_in_the_configuration():
    from rllc import composition

    asked = composition.compose(["track=wandb", "track.tags=[a,b]"]).track
    assert asked == dataclasses.replace(WANDB, tags=["a", "b"])

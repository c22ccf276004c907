import types

import pytest
from small import STEPS, WANDB, expected, measure, plan, trained, training, value, write_plan

from rllc import atomic, derive, following, store
from rllc.mistake import Mistake
from rllc.task import Task
from rllc.track import points


@pytest.fixture
def fresh(tmp_path):
    """A planned sweep without a result."""
    folder = tmp_path / "sweeps" / "fresh"
    write_plan(folder, plan())
    return folder


def follow(sweep, working, **changed):
    return following.follow(sweep, WANDB if not changed else types.SimpleNamespace(**{**vars(WANDB), **changed}),
                            working=working, seconds=0.01)  # fmt: skip


def curve(recorder, dataset):
    return [{"step": item.step, **item.values} for item in recorder.points(dataset)]


def driven(*acts):
    """Do one thing each time that somebody asks who works; in the end nobody does."""
    waiting = list(acts)

    def working():
        if waiting:
            waiting.pop(0)()
            return True
        return False

    return working


def test_results_are_shown_in_order_as_they_come(fresh, recorder):
    tasks, seen = plan(), []
    halves = tasks[8:], tasks[:8]
    trained(fresh.parent.parent)
    assert follow(fresh, driven(
        lambda: measure(fresh, halves[0]),
        lambda: seen.append(recorder.steps("pile")),
        lambda: measure(fresh, halves[1]),
        lambda: seen.append(recorder.steps("pile")),
    )) == 0  # fmt: skip
    assert seen == [[], STEPS]
    assert curve(recorder, "pile") == expected("pile")
    assert curve(recorder, "code") == expected("code")
    assert curve(recorder, "") == training()
    assert isinstance(recorder.items[-1], points.Overview)


@pytest.mark.timeout(60)
def test_where_nobody_can_know_it_ends_with_the_last_result(sweep, recorder):
    assert follow(sweep, lambda: None, quiet=1e9) == 0
    assert curve(recorder, "code") == expected("code")


def test_where_nobody_can_know_it_ends_when_nothing_has_come_for_long(fresh, recorder, capfd):
    measure(fresh, plan()[:-1])
    assert follow(fresh, lambda: None, quiet=0.1) == 0
    assert recorder.steps("pile") == STEPS
    assert [item.whole for item in recorder.points("pile")] == [True, True, True, True]
    assert [item.whole for item in recorder.points("code")] == [True, True, True, False]
    assert capfd.readouterr().err == "track: 1 of 16 results are missing\n"


def test_as_long_as_somebody_works_it_goes_on_after_the_last_result(sweep, recorder):
    asked = []
    follow(sweep, driven(*[lambda: asked.append(len(recorder.items))] * 3))
    assert len(asked) == 3
    assert sum(isinstance(item, points.Overview) for item in recorder.items) == 1


def test_what_failed_is_not_waited_for(fresh, recorder):
    tasks, seen = plan(), []
    measure(fresh, tasks[1:])
    store.put_error(fresh, tasks[0].key, "Traceback\nValueError: it\n")
    nothing = [lambda: None] * 3
    follow(fresh, driven(*nothing, lambda: seen.append(recorder.steps("pile"))))
    assert seen == [STEPS]
    assert [item.whole for item in recorder.points("pile")] == [False, True, True, True]


def test_a_result_whose_writer_was_killed_before_its_line_is_found(fresh, recorder):
    measure(fresh, plan())
    (fresh / "index" / "worker.jsonl").unlink()
    follow(fresh, lambda: None)
    assert curve(recorder, "pile") == expected("pile")


def test_results_of_other_plans_are_left_out(fresh, recorder):
    other = Task("run", "w", 5, "L0H0", "pile", "r", "llc", 0, None)
    measure(fresh, [*plan(), other])
    follow(fresh, lambda: None)
    assert recorder.steps("pile") == STEPS
    assert value(other) == 5


def test_without_a_plan_there_is_nothing_to_follow(tmp_path):
    with pytest.raises(Mistake, match="there is no plan"):
        follow(tmp_path, lambda: None)


def test_who_holds_the_sweep_works_on_it(sweep):
    assert following.working(sweep) is None
    with atomic.owner(sweep, "name"):
        assert following.working(sweep) is True


def test_the_command_says_everything(sweep, monkeypatch):
    seen = []
    monkeypatch.setattr(following, "follow", lambda *asked, **_: seen.append(asked) or 0)
    monkeypatch.setattr("sys.argv", following.command(sweep, WANDB))
    monkeypatch.setattr(following.signal, "signal", lambda *_: None)
    assert following.main() == 0
    assert seen == [(sweep, WANDB)]


def test_the_runs_are_made_again_from_the_tables_alone(sweep, recorder):
    for name in ("results", "index", "plan.jsonl"):
        (sweep / name).rename(sweep.parent / f"{name} elsewhere")
    trained(sweep.parent.parent).unlink()
    config = types.SimpleNamespace(root=str(sweep.parent.parent), name=sweep.name, input=None, track=WANDB)
    assert derive.track_again(config) == 0
    assert curve(recorder, "pile") == expected("pile")
    assert curve(recorder, "code") == expected("code")
    assert curve(recorder, "") == training()
    shown = recorder.items[-1]
    assert len(shown.tables["estimates"]) == len(plan())
    assert shown.files == ["estimates.parquet"]

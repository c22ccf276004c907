import dataclasses
import json

import pytest

from rllc.task import Budget, Sampler, Task

SAMPLER = Sampler(lr=1e-3, nbeta=30.0, gamma=200.0, chains=4, draws=40, burn_in=10, batch=8)
TASK = Task(
    run="demo-s0", weights="0a1b", step=100, part="L1H6", dataset="code", rows="2c3d", metric="llc", seed=0,
    sampler=SAMPLER,
)  # fmt: skip
OTHER = {str: "other", int: 77, float: 0.125, type(None): Budget(0.02, 0.01, 64)}


def test_a_task_survives_json_with_equal_key() -> None:
    back = Task.of(json.loads(TASK.json()))
    assert back == TASK
    assert back.key == TASK.key
    bare = dataclasses.replace(TASK, sampler=None)
    assert Task.of(json.loads(bare.json())) == bare
    frugal = dataclasses.replace(TASK, sampler=dataclasses.replace(SAMPLER, budget=Budget(0.02, 0.01, 64)))
    assert Task.of(json.loads(frugal.json())) == frugal


@pytest.mark.parametrize(
    "task",
    [
        TASK, dataclasses.replace(TASK, sampler=None, run='x"sampler":null'),
        dataclasses.replace(TASK, run='"sampler":null', dataset='\\"sampler":null', loss="kl:“é”\n"),
        dataclasses.replace(TASK, sampler=dataclasses.replace(SAMPLER, budget=Budget(0.02, 0.01, 64))),
    ],
)  # fmt: skip
def test_the_json_is_that_of_all_fields_sorted(task: Task) -> None:
    fields = dataclasses.asdict(task)
    if not task.loss:
        del fields["loss"]
    assert task.json() == json.dumps(fields, sort_keys=True, separators=(",", ":"))


def test_the_key_is_the_one_that_results_were_stored_under() -> None:
    assert TASK.key == "d42d5c87df48bf707ca588c77c5b54c1"


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Task)])
def test_every_field_changes_the_key(name: str) -> None:
    value = None if name == "sampler" else OTHER[type(getattr(TASK, name))]
    assert dataclasses.replace(TASK, **{name: value}).key != TASK.key


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Sampler)])
def test_every_option_of_the_sampler_changes_the_key(name: str) -> None:
    changed = dataclasses.replace(SAMPLER, **{name: OTHER[type(getattr(SAMPLER, name))]})
    assert dataclasses.replace(TASK, sampler=changed).key != TASK.key


def test_the_version_is_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = TASK.key
    monkeypatch.setattr("rllc.task.VERSION", 0)
    assert dataclasses.replace(TASK).key != before


@pytest.mark.parametrize("spelt", ["0.001", "1e-3", "1E-3", "0.00100", "1.0e-03"])
def test_floats_are_canonical(spelt: str) -> None:
    again = dataclasses.replace(TASK, sampler=dataclasses.replace(SAMPLER, lr=json.loads(spelt)))
    assert again.json() == TASK.json()
    assert '"lr":0.001,' in TASK.json()


def test_no_two_floats_share_a_key() -> None:
    third = dataclasses.replace(TASK, sampler=dataclasses.replace(SAMPLER, lr=0.1 + 0.2))
    other = dataclasses.replace(TASK, sampler=dataclasses.replace(SAMPLER, lr=0.3))
    assert third.key != other.key


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_without_json_has_no_key(value: float) -> None:
    task = dataclasses.replace(TASK, sampler=dataclasses.replace(SAMPLER, lr=value))
    with pytest.raises(ValueError, match="not JSON compliant"):
        _ = task.key


@pytest.mark.parametrize(
    ("burn_in", "draws", "every", "steps"), [(0, 1, 1, 1), (0, 40, 1, 40), (10, 40, 1, 50), (10, 3, 5, 21)]
)
def test_steps_end_at_the_last_kept_draw(burn_in: int, draws: int, every: int, steps: int) -> None:
    sampler = dataclasses.replace(SAMPLER, burn_in=burn_in, draws=draws, every=every)
    assert sampler.steps == steps
    assert len(range(steps)[burn_in::every]) == draws

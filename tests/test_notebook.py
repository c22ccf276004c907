import csv
import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import rllc
from rllc import plan
from rllc.config import Model
from rllc.models import decoder
from rllc.task import Task
from rllc.zoo import folder

MODEL = Model(2, 4, 16, 4, 12, 40, "learned")
QUICK = rllc.Sampler(lr=1e-3, nbeta=30, gamma=200, chains=4, draws=8, burn_in=0, batch=3)


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "step_0000005.safetensors"
    folder.save(path, MODEL, decoder.init(MODEL, 0))
    return path


def test_estimate_runs_the_chains_of_one_part(checkpoint):
    rows = np.random.default_rng(0).integers(40, size=(20, 10))
    got = rllc.estimate(checkpoint, "L1H2", rows, sampler=QUICK)
    assert got.chains_C.shape == (4,)
    assert got.value == pytest.approx(got.chains_C.mean())
    assert got.stats["weights"] == 4 * 16 * 4 + 3 * 4
    assert np.array_equal(rllc.estimate(str(checkpoint), "L1H2", rows.tolist(), sampler=QUICK).loss_CS, got.loss_CS)
    assert rllc.estimate(checkpoint, "L1H2", rows, sampler=QUICK, seed=1).value != got.value


def test_estimate_takes_a_preset_by_name(checkpoint):
    got = rllc.estimate(checkpoint, "L0H0", np.zeros((4, 12), int))
    assert got.task.sampler.nbeta == 30
    assert len(got.chains_C) == got.task.sampler.chains


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"part": "L2H9"}, r"'L2H9' matches no parameter; legal: heads L0H0, .*L1H3"),
        (
            {"tokens": np.zeros((3, 13), int)},
            r"tokens: int64 of shape \(3, 13\) are not whole numbers, \(rows, 2 to 12\)",
        ),
        ({"tokens": np.zeros((3, 4))}, r"tokens: float64 of shape \(3, 4\) are not"),
        ({"tokens": np.zeros(3, int)}, r"tokens: int64 of shape \(3,\) are not"),
        ({"tokens": np.full((3, 4), 40)}, r"tokens: 3 rows must hold ids from 0 to 39"),
        ({"tokens": np.zeros((0, 4), int)}, r"tokens: 0 rows must hold ids"),
        ({"sampler": "nope"}, r"sampler: 'nope' is not one of: .*paper"),
        (
            {"sampler": dataclasses.replace(QUICK, nbeta=0.0)},
            r"sampler.nbeta: 0.0 is not a finite number above 0",
        ),
        ({"checkpoint": "nowhere.safetensors"}, r"nowhere.safetensors does not exist"),
    ],
)
def test_mistakes_are_one_sentence(checkpoint, change, sentence):
    good = {"checkpoint": checkpoint, "part": "L0H0", "tokens": np.zeros((3, 4), int), "sampler": QUICK}
    words = {**good, **change}
    with pytest.raises(rllc.Mistake, match=sentence):
        rllc.estimate(words["checkpoint"], words["part"], words["tokens"], sampler=words["sampler"])


def test_a_sweep_is_read_as_arrays_and_written_as_a_tidy_table(tmp_path):
    rows = [
        {
            "run": "r",
            "metric": "llc",
            "part": part,
            "dataset": "d",
            "step": step,
            "seed": 0,
            "value": step + i,
            "error": 0.5,
            "health": "ok",
        }
        for i, part in enumerate(["L0H0", "L0H1"])
        for step in (0, 10)
    ]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "estimates.parquet")
    sweep = rllc.load(tmp_path)
    assert sweep.estimates().num_rows == 4
    assert sweep.trajectories()[0].value_PDT.tolist() == [[[0, 10]], [[1, 11]]]
    assert sweep.labels() == []
    sweep.to_csv(tmp_path / "curves.csv")
    with (tmp_path / "curves.csv").open() as file:
        lines = list(csv.DictReader(file))
    low, high = (float(lines[3].pop(name)) for name in ("low", "high"))
    assert (low, high) == pytest.approx((11 - 0.5 * 1.959964, 11 + 0.5 * 1.959964))  # no chains are known: the normal's
    assert lines[3] == {
        "run": "r", "metric": "llc", "part": "L0H1", "dataset": "d", "step": "10", "value": "11.0", "error": "0.5"
    }  # fmt: skip


def test_load_says_where_nothing_was_gathered(tmp_path):
    with pytest.raises(rllc.Mistake, match=r"estimates.parquet does not exist"):
        rllc.load(tmp_path)


def test_the_rows_of_a_dataset_are_those_of_the_plan(tmp_path):
    sweep = tmp_path / "sweeps" / "s"
    sweep.mkdir(parents=True)
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "x.npy", np.arange(6, dtype=np.uint16).reshape(2, 3))
    task = Task("r", "w", 0, "L0H0", "d", "x", "prev_token", 0, None)
    plan.write(sweep, [plan.Cell(task, "c", "data/x.npy", 1.0)])
    assert rllc.Sweep(sweep).rows("d").tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(rllc.Mistake, match=r"dataset: 'e' is not one of: d"):
        rllc.Sweep(sweep).rows("e")


def test_an_estimate_is_said_in_a_line(checkpoint):
    got = rllc.estimate(checkpoint, "L1H2", np.zeros((4, 12), int), sampler=QUICK)
    low, high = got.interval()
    number = f"{got.value:.3f} ± {got.error:.3f}, 95 % {low:.3f} to {high:.3f}"
    assert str(got) == f"llc of L1H2 on tokens: {number} ({got.health}, {got.reason})"
    assert "array" not in repr(got)
    assert set(dir(rllc)) == {"Estimate", "Mistake", "Sampler", "Sweep", "estimate", "estimate_module", "load"}

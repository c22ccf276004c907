import csv
import math

import numpy as np
import pytest
from planted import curves, heights
from sklearn.metrics import silhouette_score
from sklearn.neighbors import NearestCentroid

from rllc import separation
from rllc.mistake import Mistake
from rllc.trajectories import Trajectories

RNG = np.random.default_rng(0)
STEPS = tuple(int(2**n) for n in range(24))


def trajectory(value_PDT, error=0.02, metric="llc"):
    parts = tuple(f"L{p % 2}H{p}" for p in range(len(value_PDT)))
    return Trajectories("run", metric, parts, ("a", "b"), STEPS, value_PDT, np.full(value_PDT.shape, error))


def of(lines, index, scaling, scope="all"):
    (line,) = [each for each in lines if (each.index, each.scaling, each.scope) == (index, scaling, scope)]
    return line


def one_hot(type_NP):
    return (type_NP[..., None] == np.arange(type_NP.max() + 1)).astype(float)


def test_silhouette_and_nearest_centroid_are_those_of_scikit_learn():
    points, types = RNG.normal(size=(14, 5)), np.array([0] * 6 + [1] * 5 + [2] * 3)
    many = np.vstack([types, RNG.permuted(np.tile(types, (20, 1)), axis=1)])
    assert separation.silhouette(points, one_hot(many)) == pytest.approx([silhouette_score(points, t) for t in many])
    expected = [
        np.mean([NearestCentroid().fit(np.delete(points, p, 0), np.delete(t, p)).predict(points[p : p + 1])[0] == t[p]
                 for p in range(14)])
        for t in many
    ]  # fmt: skip
    assert separation.nearest(points, one_hot(many)) == pytest.approx(expected)
    alone = np.array([[0] * 13 + [1]])
    assert separation.silhouette(points, one_hot(alone)) == pytest.approx(silhouette_score(points, alone[0]))
    assert separation.nearest(points, one_hot(alone))[0] <= 13 / 14  # a type of one is a miss


def test_shapes_are_told_apart_by_shape_and_heights_by_level():
    value, truth = curves()
    types = {part: "xyz"[truth[p]] for p, part in enumerate(trajectory(value).parts)}
    lines = list(separation.lines(trajectory(value), types, seed=0))
    for index in ("ari", "nearest"):
        assert of(lines, index, "standardize").value == 1
        assert of(lines, index, "standardize").p < 0.002
    assert of(lines, "silhouette", "standardize").value > 0.8
    value, truth = heights()
    types = {part: "xyz"[truth[p]] for p, part in enumerate(trajectory(value).parts)}
    lines = list(separation.lines(trajectory(value), types, seed=0))
    assert of(lines, "ari", "global").value == 1
    assert of(lines, "ari", "standardize").value < 0.5


def test_noise_separates_nothing_and_its_errors_and_chance_say_so():
    value = RNG.normal(size=(12, 2, 24))
    types = {part: "xy"[p < 6] for p, part in enumerate(trajectory(value).parts)}
    lines = list(separation.lines(trajectory(value, error=1.0), types, seed=0))
    for index in separation.INDICES:
        line = of(lines, index, "global")
        assert line.p > 0.02
        assert abs(line.value - line.chance) < 4 * math.hypot(line.error, line.heads_error) + 0.2
    assert of(lines, "silhouette", "global").error > 0
    still = list(separation.lines(trajectory(value, error=0.0), types, seed=0))
    assert all(line.error < 1e-12 for line in still)
    unknown = list(separation.lines(trajectory(value, error=np.nan), types, seed=0))
    assert all(math.isnan(line.error) for line in unknown)


def test_scopes_with_one_type_have_no_lines():
    value, _ = curves()
    types = {part: "x" if part.startswith("L0") else "xy"[p % 4 == 1] for p, part in enumerate(trajectory(value).parts)}
    assert {line.scope for line in separation.lines(trajectory(value), types, seed=0)} == {"all", "L1"}
    assert not list(separation.lines(trajectory(value), dict.fromkeys(types, "x"), seed=0))


def table(path, metrics):
    """An estimates table: 8 heads, 4 of which attend to the token before, and a number that follows it or does not."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = [
        {"run": "run", "metric": metric, "part": f"L0H{head}", "dataset": "a", "step": step, "seed": 0,
         "value": float(level(head, step)), "error": 0.01}
        for metric, level in metrics.items() for head in range(8) for step in (0, 10, 20)
    ]  # fmt: skip
    rows.append({**rows[0], "metric": "icl", "part": "*"})
    parquet.write_table(pa.Table.from_pylist(rows), path)


ATTENTION = {
    "prev_token": lambda head, step: 0.9 * (head < 4) * step / 20,
    "current_token": lambda _head, _step: 0.1,
    "prefix": lambda _head, _step: 0.0,
}


def test_a_sweep_is_tabled_with_metrics_of_heads_only(tmp_path):
    table(tmp_path / "estimates.parquet", {**ATTENTION, "good": lambda head, step: step * (2 + (head < 4) + head / 99),
                                           "bad": lambda head, step: (head % 4) * step})  # fmt: skip
    found = separation.run(tmp_path)
    assert {line.metric for line in found} == {*ATTENTION, "good", "bad"}
    of_all = {line.metric: line for line in found if (line.scope, line.index, line.scaling) == ("all", "ari", "global")}
    assert of_all["good"].value == 1
    assert of_all["bad"].value < 0.2
    assert [name for name, line in of_all.items() if line.defines] == sorted(ATTENTION)
    with (tmp_path / "clusters" / "separation.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert len(written) == len(found)
    assert tuple(written[0]) == separation.COLUMNS
    shown = separation.describe(found)
    assert "good" in shown
    assert "prev_token*" in shown


def test_without_types_or_a_table_there_is_nothing_to_compare(tmp_path):
    with pytest.raises(Mistake, match="gather the sweep first"):
        separation.run(tmp_path)
    table(tmp_path / "estimates.parquet", {"good": lambda head, _step: head})
    with pytest.raises(Mistake, match=r"grid.metrics: .* measure prev_token, current_token, prefix too"):
        separation.run(tmp_path)

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy import stats

from rllc.mistake import Mistake
from rllc.report import estimates, source


def rows_of(folder: Path, **wanted):
    rows = parquet.read_table(folder / "estimates.parquet").to_pylist()
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def test_curves_hold_the_table_with_student_intervals(sweep):
    folder = sweep()
    curves = source.read(folder).curves["stdlib-s0"]
    assert curves.datasets == ("stdlib_code", "stdlib_mix")
    assert curves.steps[:3] == (0, 100, 200)
    for row in rows_of(folder, metric="llc"):
        where = curves.parts.index(row["part"]), curves.datasets.index(row["dataset"]), curves.steps.index(row["step"])
        assert curves.value_PDT[where] == row["value"]
        low, high = stats.t.interval(0.95, 3, loc=row["value"], scale=row["error"])
        assert curves.half_PDT[where] == pytest.approx((high - low) / 2, rel=1e-12)


def test_seeds_of_a_cell_are_averaged_and_their_freedom_added(sweep):
    folder = sweep(seeds=3, heads=2)
    curves = source.read(folder).curves["stdlib-s0"]
    cell = rows_of(folder, metric="llc", part="L1H1", dataset="stdlib_mix", step=400)
    assert len(cell) == 3
    error = math.sqrt(sum(row["error"] ** 2 for row in cell)) / 3
    at = curves.parts.index("L1H1"), 1, curves.steps.index(400)
    assert curves.value_PDT[at] == pytest.approx(np.mean([row["value"] for row in cell]), rel=1e-12)
    assert curves.error_PDT[at] == pytest.approx(error, rel=1e-12)
    assert curves.half_PDT[at] == pytest.approx(error * stats.t.ppf(0.975, 9), rel=1e-12)


def test_diverged_and_missing_cells_are_holes(sweep):
    health = {("L0H1", "stdlib_code", 300): ("diverged", "a loss is not finite")}
    folder = sweep(health=health, absent=frozenset({("L0H1", "stdlib_code", 800)}))
    curves = source.read(folder).curves["stdlib-s0"]
    holes = np.argwhere(np.isnan(curves.value_PDT))
    assert [(curves.parts[p], curves.datasets[d], curves.steps[t]) for p, d, t in holes] == [
        ("L0H1", "stdlib_code", 300),
        ("L0H1", "stdlib_code", 800),
    ]


def test_one_chain_has_a_value_and_no_interval(sweep):
    curves = source.read(sweep(chains=1)).curves["stdlib-s0"]
    assert np.isfinite(curves.value_PDT).all()
    assert np.isnan(curves.half_PDT).all()


def test_an_error_without_chains_is_taken_as_normal(tmp_path):
    table = tmp_path / "curves.csv"
    table.write_text("part,dataset,step,value,error\n0.10,pile,0,1,0.5\n0.10,pile,10,2,0.25\n")
    found = source.read(tmp_path, table=table)
    curves = found.curves["curves"]
    assert curves.parts == ("0.10",)
    assert found.symbol == "value"
    np.testing.assert_allclose(curves.half_PDT[0, 0], 1.959964 * np.array([0.5, 0.25]), rtol=1e-6)


def test_parts_stand_in_natural_order_by_layer(sweep):
    curves = source.read(sweep(heads=11, others=("L0*", "*"))).curves["stdlib-s0"]
    layers = curves.layers()
    assert [curves.parts[p] for p in layers["L1"]] == [f"L1H{h}" for h in range(11)]
    assert sorted(curves.parts[p] for p in curves.others()) == ["*", "L0*"]


def test_last_head_is_traced_unless_named(sweep):
    folder = sweep(others=("*",))
    assert source.read(folder).traced == {"stdlib-s0": "L1H3"}
    assert source.read(folder, traces="L0H2").traced == {"stdlib-s0": "L0H2"}
    with pytest.raises(Mistake, match=r"report\.traces: 'L9H9' is not one of: \*, L0H0"):
        source.read(folder, traces="L9H9")


def test_traces_are_found_by_key_in_the_order_of_chains(sweep):
    folder = sweep()
    key = rows_of(folder, metric="llc", part="L0H1", step=1600)[0]["key"]
    wanted = [row for row in parquet.read_table(folder / "traces.parquet").to_pylist() if row["key"] == key]
    found = estimates.traces(folder, [key])
    assert list(found) == [key]
    for (step_S, excess_S), row in zip(found[key], wanted, strict=True):
        assert step_S.tolist() == row["step"]
        assert excess_S.tolist() == row["excess"]


def table(rows, schema=None):
    made = pa.Table.from_pylist(rows)
    return made.replace_schema_metadata({"rllc.schema": str(schema)}) if schema is not None else made


ROW = {"part": "L0H0", "dataset": "pile", "step": 0, "value": 1.0}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "there is no such file; gather the sweep first"),
        (table([]), "it holds no estimates"),
        (table([ROW], 99), "its schema is 99, but this version reads 1"),
        (table([{"part": "L0H0", "step": 0}]), "column dataset, value is missing"),
        (b"part,dataset\n", "not a Parquet file"),
    ],
)
def test_what_cannot_be_read_is_a_mistake_in_one_sentence(tmp_path, content, sentence):
    path = tmp_path / "estimates.parquet"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        parquet.write_table(content, path)
    with pytest.raises(Mistake, match=sentence) as raised:
        source.read(tmp_path)
    assert "\n" not in str(raised.value)


def test_tables_of_clusters_of_another_version_are_a_mistake(sweep):
    folder = sweep()
    (folder / "clusters").mkdir()
    (folder / "clusters" / "config.json").write_text(json.dumps({"options": {}}))
    (folder / "clusters" / "labels.csv").write_text("run,scope\n")
    with pytest.raises(Mistake, match="its tables are not those of this version"):
        source.read(folder)


def test_clusters_are_read_back(clustered):
    groups = source.read(clustered).groups
    assert groups.primary == ("kmeans", "standardize")
    assert groups.scopes("stdlib-s0") == ["L0", "L1"]
    labels = groups.main("stdlib-s0", "L1", "kmeans", "standardize")
    assert sorted(labels) == ["L1H0", "L1H1", "L1H2", "L1H3"]
    assert labels["L1H2"] == labels["L1H3"] != labels["L1H0"]
    (primary,) = [line for line in groups.agreed("stdlib-s0", "L1") if line.primary]
    assert primary.ari == 1.0
    assert groups.types["stdlib-s0"]["L1H3"] == "induction"

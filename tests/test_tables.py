import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rllc import tables
from rllc.mistake import Mistake


def csv_of(folder: Path, text: str) -> Path:
    path = folder / "curves.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_names_stay_text_and_optional_columns_have_defaults(tmp_path):
    (row,) = tables.read(csv_of(tmp_path, "part,dataset,step,value\n0.10,007,20,1.5\n"))
    assert (row.part, row.dataset, row.step, row.value) == ("0.10", "007", 20, 1.5)
    assert (row.run, row.metric, row.seed) == ("curves", "value", "0")
    assert math.isnan(row.error)


def test_all_columns_are_read_in_any_order_and_others_are_ignored(tmp_path):
    text = "﻿note, value,run,part,metric,dataset,step,seed,error\nx,-2e-1,r,L0H1,llc,pile,100.0,3,.5\n\n"
    (row,) = tables.read(csv_of(tmp_path, text))
    assert row == tables.Row("r", "llc", "L0H1", "pile", 100, "3", -0.2, 0.5, "line 2")


def test_what_is_empty_or_not_finite_is_a_hole(tmp_path):
    rows = tables.read(csv_of(tmp_path, "part,dataset,step,value,error\na,d,0,,1\na,d,1,nan,1\na,d,2,inf,\n"))
    assert [math.isnan(row.value) for row in rows] == [True, True, True]
    assert math.isnan(rows[2].error)


def test_parquet_and_csv_give_the_same_rows(tmp_path):
    path = tmp_path / "curves.parquet"
    pq.write_table(pa.table({"value": [0.5, None], "step": [0, 3], "part": ["0.10", "b"], "dataset": ["d", "d"]}), path)
    text = csv_of(tmp_path, "part,dataset,step,value\n0.10,d,0,0.5\nb,d,3,\n")
    columns = [[(row.part, row.step, str(row.value)) for row in tables.read(one)] for one in (path, text)]
    assert columns[0] == columns[1] == [("0.10", 0, "0.5"), ("b", 3, "nan")]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("part,step,value\n", r"column dataset is missing; needed are part, dataset, step, value"),
        ("", r"column part, dataset, step, value is missing.*there are none"),
        ("part,part,dataset,step,value\n", r"column part appears more than once"),
        ("part,dataset,step,value\n", r"the table has no rows"),
        ("part,dataset,step,value\na,d,0,1\na,d,1,one\n", r"line 3: value is 'one', which is not a number"),
        ("part,dataset,step,value,error\na,d,0,1,?\n", r"line 2: error is '\?', which is not a number"),
        ("part,dataset,step,value,error\na,d,0,1,-0.1\n", r"line 2: error is '-0.1', but has to be a number from 0 on"),
        ("part,dataset,step,value,error\na,d,0,1,NaN\n", r"line 2: error is 'NaN', but .*leave it empty if unknown"),
        ("part,dataset,step,value,error\na,d,0,1,inf\n", r"line 2: error is 'inf', but has to be a number from 0 on"),
        (
            "part,dataset,step,value,error\na,d,0,1,1e200\n",
            r"line 2: error is '1e200', which is no number up to 1e\+100",
        ),
        ("part,dataset,step,value\na,d,0,-1e101\n", r"line 2: value is '-1e101', which is no number up to 1e\+100"),
        ("part,dataset,step,value\na,d,first,1\n", r"line 2: step is 'first', which is not a number"),
        ("part,dataset,step,value\na,d,-1,1\n", r"line 2: step is '-1', but has to be a whole number"),
        ("part,dataset,step,value\na,d,1.5,1\n", r"line 2: step is '1.5', but has to be a whole number"),
        ("part,dataset,step,value\na,d,,1\n", r"line 2: step is '', but has to be a whole number"),
        ("part,dataset,step,value\n,d,0,1\n", r"line 2: part is '', but has to be a name"),
        ("part,dataset,step,value\na,d,0\n", r"line 2 has 3 fields, but the header has 4"),
    ],
)
def test_a_bad_table_is_refused_in_one_sentence(tmp_path, text, sentence):
    with pytest.raises(Mistake, match=sentence) as caught:
        tables.read(csv_of(tmp_path, text))
    assert str(caught.value).startswith(str(tmp_path / "curves.csv"))
    assert "\n" not in str(caught.value)


def test_a_file_of_another_kind_is_refused(tmp_path):
    with pytest.raises(Mistake, match=r"'\.json' is not one of: \.csv, \.parquet"):
        tables.read(tmp_path / "curves.json")
    with pytest.raises(Mistake, match="there is no such file"):
        tables.read(tmp_path / "absent.csv")
    broken = tmp_path / "broken.parquet"
    broken.write_text("part,dataset\n")
    with pytest.raises(Mistake, match="not a Parquet file"):
        tables.read(broken)
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"part,dataset,step,value\n\xff\xfe,d,0,1\n")
    with pytest.raises(Mistake, match="not a CSV file in UTF-8"):
        tables.read(binary)


def test_an_unknown_error_is_empty_or_in_parquet_not_a_number(tmp_path):
    path = tmp_path / "curves.parquet"
    same = {"value": [0.5, 0.5], "part": ["a", "a"], "dataset": ["d", "d"], "step": [0, 1]}
    pq.write_table(pa.table({**same, "error": [math.nan, None]}), path)
    assert all(math.isnan(row.error) for row in tables.read(path))
    assert math.isnan(tables.read(csv_of(tmp_path, "part,dataset,step,value,error\na,d,0,1,\n"))[0].error)
    for odd in (math.inf, -1.0):
        pq.write_table(pa.table({**same, "error": [0.5, odd]}), path)
        with pytest.raises(Mistake, match=rf"row 2: error is {odd}, but has to be a number from 0 on"):
            tables.read(path)


def test_numbers_are_no_names(tmp_path):
    path = tmp_path / "curves.parquet"
    pq.write_table(pa.table({"value": [0.5], "step": [0], "part": [0.1], "dataset": ["d"]}), path)
    with pytest.raises(Mistake, match=r"row 1: part is 0\.1, but has to be a name"):
        tables.read(path)


def test_a_file_of_a_later_version_is_refused_and_one_of_this_version_is_not(tmp_path):
    path = tmp_path / "estimates.parquet"
    columns = pa.table({"value": [0.5], "step": [0], "part": ["a"], "dataset": ["d"], "chains": [[0.4, 0.6]]})
    pq.write_table(columns.replace_schema_metadata({"rllc.schema": "1"}), path)
    assert tables.read(path)[0].chains == (0.4, 0.6)
    pq.write_table(columns.replace_schema_metadata({"rllc.schema": "999"}), path)
    with pytest.raises(Mistake, match="its schema is 999, but this version reads up to"):
        tables.read(path)


def test_a_column_chains_that_holds_something_else_is_not_meant(tmp_path):
    path = tmp_path / "curves.parquet"
    for odd in ([3], ["x"], [["x"]], [None]):
        pq.write_table(pa.table({"value": [0.5], "step": [0], "part": ["a"], "dataset": ["d"], "chains": odd}), path)
        assert tables.read(path)[0].chains == ()

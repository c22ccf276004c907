import pyarrow as pa
from pyarrow import parquet

from rllc import closing

AGREEMENT = """run,scope,method,scaling,k,ari,ami,p,primary,reason
r,L0,kmeans,none,2,1,1,0.125,true,
r,L1,kmeans,none,3,0.25,0.125,0.5,true,
r,L1,ward,none,3,0.75,0.75,0.01,false,
r,mean,kmeans,none,main,nan,nan,nan,true,undefined in r L0
"""
SCORES = """run,scope,method,scaling,k,score,value,null_median,null_q95
r,L0,kmeans,none,2,silhouette,0.9,0.3,0.4
r,L1,kmeans,none,3,silhouette,0.35,0.3,0.4
"""


def test_the_end_tells_places_health_and_agreement_with_its_weakness(tmp_path):
    assert closing.summary(tmp_path) == ""
    rows = [{"metric": "llc", "health": health} for health in ("ok", "ok", "short")] + [
        {"metric": "prefix", "health": "ok"}
    ]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "estimates.parquet")
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "agreement.csv").write_text(AGREEMENT)
    (tmp_path / "clusters" / "scores.csv").write_text(SCORES)
    assert closing.summary(tmp_path).splitlines() == [
        f"estimates {tmp_path / 'estimates.parquet'}",
        "health    2 ok, 0 suspect, 1 short, 0 diverged of the λ̂",
        "r L0: kmeans/none, k 2, against head types: ARI 1.00, AMI 1.00, p 0.125",
        "r L1: kmeans/none, k 3, against head types: ARI 0.25, AMI 0.12, p 0.5; its silhouette is within the null, "
        "no evidence of groups",
        "r mean: kmeans/none, k main, against head types: no agreement to speak of (undefined in r L0)",
    ]


def test_numbers_are_numbers_where_a_whole_column_is():
    table = [
        {"part": "L0H0", "k": "2", "ari": "", "label": "1"},
        {"part": "0.10", "k": "main", "ari": "nan", "label": "0"},
    ]
    first, second = closing.numbers(table)
    assert first == {"part": "L0H0", "k": "2", "ari": None, "label": 1.0}
    assert second["ari"] != second["ari"]
    assert closing.numbers([]) == []


def test_the_overview_has_the_tables_and_pictures_that_are_there(tmp_path):
    assert closing.overview(tmp_path) == ({}, [])
    rows = [
        {"key": str(n), "run": "r", "part": f"L0H{n}", "dataset": "pile", "step": 1, "seed": 0, "metric": metric,
         "value": 1.0, "error": 0.5, "health": health, "reason": "why" * (health != "ok"), "sampler": "null"}
        for n, (metric, health) in enumerate(
            [("llc", "ok"), ("llc", "suspect"), ("llc", "short"), ("llc", "diverged"), ("prefix", "suspect")]
        )
    ]  # fmt: skip
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "estimates.parquet")
    traces = [{"key": str(n), "chain": 0, "step": [0, 1, 2], "excess": [0.0, 0.5, 1.0]} for n in range(5)]
    parquet.write_table(pa.Table.from_pylist(traces), tmp_path / "traces.parquet")
    for folder in ("clusters", "report", "wandb"):
        (tmp_path / folder).mkdir()
    (tmp_path / "report" / "curves.png").write_bytes(b"")
    (tmp_path / "clusters" / "labels.csv").write_text("part,label\nL0H0,1\n")
    tables, figures = closing.overview(tmp_path)
    assert list(tables) == ["estimates", "suspects", "labels"]
    assert [row["part"] for row in tables["estimates"]] == [f"L0H{n}" for n in range(5)]
    assert [(row["part"], row["health"]) for row in tables["suspects"]] == [("L0H3", "diverged"), ("L0H1", "suspect")]
    assert "key" not in tables["suspects"][0]
    assert tables["labels"] == [{"part": "L0H0", "label": 1.0}]
    assert figures == [tmp_path / "report" / "curves.png", tmp_path / "wandb" / "suspects.png"]
    assert figures[1].read_bytes().startswith(b"\x89PNG")

"""A sweep of every metric, from the command line to the tables."""

import math

import pytest
from pyarrow import parquet
from tiny import Job, text

from rllc.measured import METRICS


@pytest.mark.slow
def test_every_metric_goes_all_the_way(tmp_path):
    """Each part of each metric has a finite number; a part as L0H1+L1H2 does not disturb clusters and report."""
    job = Job(tmp_path / "root", text(tmp_path / "text.jsonl"))
    words = f"grid.metrics=[{','.join(METRICS)}]", "grid.steps=[0,20]", "grid.parts=[L0H0,L0H1,L1H0,L1H2]"
    done = job.do("sweep", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = parquet.read_table(job.sweep / "estimates.parquet").to_pylist()
    parts = {metric: {row["part"] for row in rows if row["metric"] == metric} for metric in METRICS}
    heads = {"L0H0", "L0H1", "L1H0", "L1H2"}
    pairs = {f"{low}+{high}" for low in ("L0H0", "L0H1") for high in ("L1H0", "L1H2")}
    for metric, kind in METRICS.items():
        assert parts[metric] == {"parts": heads, "heads": heads, "pairs": pairs, "model": {"*"}}[kind.of]
    assert all(math.isfinite(row["value"]) for row in rows)
    assert {row["dataset"] for row in rows if row["metric"] == "k_composition"} == {"weights"}
    assert (job.sweep / "report" / "index.html").exists()
    assert "nothing to do" in job.do("sweep", *words).stdout
    table = job.do("compare")
    assert table.returncode == 0, table.stderr
    assert "all of one type" in table.stdout  # a model of 20 steps has no types yet

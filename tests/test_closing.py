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

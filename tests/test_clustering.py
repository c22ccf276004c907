import csv
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny

from rllc import clustering
from rllc.config import Cluster, Primary
from rllc.mistake import Mistake

REFERENCE = Path(__file__).parent / "fixtures" / "tiny_reference"
FAST = Cluster(
    **{"methods": ["kmeans", "ward"], "scalings": ["none", "standardize"], "primary": Primary("kmeans", "standardize")},
    **{"k": None, "k_range": [2, 3], "per_layer": True, "logx": True, "fill": "none"},
    **{"n_init": 10, "seed": 0, "null_draws": 5, "draws": 0},
)
METHODS = ["kmeans", "dtw_kmeans", "kshape", "ward"]


def lines(name: str) -> list[dict[str, str]]:
    with open(REFERENCE / name, newline="") as file:
        return list(csv.DictReader(file))


def sweep(folder: Path) -> Path:
    """The reference curves and scores as a gathered sweep of one run."""
    rows = [{**line, "metric": "llc", "seed": "0"} for line in lines("rllc.csv")]
    for line in lines("head_scores.csv"):
        part = f"L{line['layer']}H{line['head']}"
        cell = {"part": part, "dataset": "code", "step": line["step"], "error": "nan", "seed": "0"}
        rows += [{**cell, "metric": name, "value": line[name]} for name in ("prefix", "prev_token", "current_token")]
    columns = {name: [row[name] for row in rows] for name in ("metric", "part", "dataset", "seed")}
    numbers = {name: [float(row[name]) for row in rows] for name in ("step", "value", "error")}
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"run": ["tiny"] * len(rows), **columns, **numbers}), folder / "estimates.parquet")
    return folder


def written(folder: Path, name: str) -> list[dict[str, str]]:
    with open(folder / "clusters" / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def groups(folder: Path, method: str, scaling: str, scope: str, k: str) -> list[str]:
    """Head numbers of each group, as "0347", in the order of the labels."""
    found: dict[str, str] = {}
    for line in written(folder, "labels"):
        if (line["method"], line["scaling"], line["scope"], line["k"]) == (method, scaling, scope, k):
            found[line["label"]] = found.get(line["label"], "") + line["part"][-1]
    return [found[label] for label in sorted(found)]


@pytest.mark.slow
def test_several_processes_find_what_one_does(tmp_path, monkeypatch):
    options = replace(FAST, methods=["kmeans", "kshape", "ward"])
    seen = {1: [], 2: []}
    for processes in seen:
        monkeypatch.setenv("LOKY_MAX_CPU_COUNT", str(processes))
        monkeypatch.setattr(clustering, "ALONE", 0.0)
        clustering.run(
            sweep(tmp_path / str(processes)), options, progress=lambda *at, to=seen[processes]: to.append(at)
        )
    one, two = (tmp_path / str(processes) / "clusters" for processes in seen)
    assert seen[1] == seen[2] == [(done, 10) for done in range(1, 11)]
    assert {path.name for path in one.iterdir()} == {path.name for path in two.iterdir()}
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes()


@pytest.mark.slow
def test_a_killed_clustering_leaves_no_process(tmp_path):
    code = (
        "import sys; from rllc import cli, clustering; clustering.ALONE = 0; "
        f"sys.argv = ['rllc', 'cluster', 'input={REFERENCE / 'rllc.csv'}', 'root={tmp_path}']; cli.main()"
    )
    environment = os.environ | {"LOKY_MAX_CPU_COUNT": "2"}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL)
    tiny.until(lambda: len(tiny.descendants(process.pid)) >= 3)  # two, and what keeps book of their memory
    begun = tiny.descendants(process.pid)
    process.kill()
    process.wait()
    tiny.until(lambda: not tiny.alive(begun), seconds=30)


@pytest.mark.slow
def test_reference_curves_give_the_reference_groups(tmp_path):
    options = replace(FAST, methods=METHODS, k_range=[2, 3], null_draws=1)
    summary = clustering.run(sweep(tmp_path), options)
    assert summary.failed == []
    for method in METHODS:
        assert groups(tmp_path, method, "standardize", "L1", "3") == ["0347", "125", "6"]
        if method != "kshape":
            assert groups(tmp_path, method, "none", "L0", "2") == ["1234567", "0"]
    types = {line["part"]: line["type"] for line in written(tmp_path, "types")}
    assert [part for part, name in types.items() if name == "induction"] == ["L1H0", "L1H3", "L1H4", "L1H7"]
    assert [part for part, name in types.items() if name == "previous-token"] == ["L0H0", "L1H6"]
    perfect = {
        (line["method"], line["scaling"], line["scope"], line["k"])
        for line in written(tmp_path, "agreement")
        if line["ari"] == "1"
    }
    assert perfect >= {(method, "standardize", "L1", "3") for method in METHODS}
    assert perfect >= {(method, "none", "L0", "2") for method in METHODS if method != "kshape"}


def test_tables_are_written_whole_and_the_same_each_time(tmp_path):
    seen, few = [], replace(FAST, null_draws=2)
    for folder in (tmp_path / "one", tmp_path / "two"):
        clustering.run(sweep(folder), few)
        clustering.run(folder, few)
        seen.append({path.name: path.read_bytes() for path in (folder / "clusters").iterdir()})
    assert seen[0] == seen[1]
    assert sorted(seen[0]) == [
        *("agreement.csv", "between.csv", "config.json", "consensus.csv", "labels.csv", "matches.csv", "scores.csv"),
        *("stability.csv", "support.csv", "transfer.csv", "types.csv"),
    ]
    folder = tmp_path / "one"
    assert len(written(folder, "labels")) == 2 * 2 * 2 * 16
    assert len(written(folder, "scores")) == 2 * 2 * 2 * 2 * 2
    assert len(written(folder, "between")) == 2 * 6
    assert len(written(folder, "types")) == 16
    (first, *_) = written(folder, "labels")
    assert first == dict(
        **{"run": "tiny", "scope": "L0", "method": "kmeans", "scaling": "none", "k": "2", "seed": "0"},
        **{"part": "L0H0", "label": "1"},
    )


def test_the_choice_of_k_is_stated(tmp_path):
    calls = []
    summary = clustering.run(sweep(tmp_path), FAST, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(done, 8) for done in range(1, 9)]
    config = json.loads((tmp_path / "clusters" / "config.json").read_text())
    gains = {
        (line["scope"], int(line["k"])): float(line["value"]) - float(line["null_median"])
        for line in written(tmp_path, "scores")
        if (line["method"], line["scaling"], line["score"]) == ("kmeans", "standardize", "silhouette")
    }
    best = {scope: max((2, 3), key=lambda k: gains[scope, k]) for scope in ("L0", "L1")}
    assert config["k"] == [{"run": "tiny", "scope": s, "k": best[s], "how": "chosen"} for s in ("L0", "L1")]
    assert {line["k"] for line in written(tmp_path, "between") if line["scope"] == "L0"} == {str(best["L0"])}
    assert summary.choices["tiny", "L0"].k == best["L0"]
    assert config["options"]["primary"] == {"method": "kmeans", "scaling": "standardize"}
    assert config["filled"] == {"tiny": []}
    assert set(config["versions"]) == {"numpy", "scikit-learn", "tslearn", "dtaidistance"}

    given = clustering.run(tmp_path, replace(FAST, k=3))
    assert {(choice.k, choice.how) for choice in given.choices.values()} == {(3, "given")}
    primary = [line for line in written(tmp_path, "agreement") if line["primary"] == "true"]
    assert [(line["scope"], line["k"]) for line in primary] == [("L0", "3"), ("L1", "3"), ("mean", "3")]


def test_a_table_of_ones_own_has_no_types(tmp_path):
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "types.csv").write_text("of an earlier table")
    summary = clustering.run(tmp_path, FAST, table=REFERENCE / "rllc.csv")
    assert list(summary.choices) == [("rllc", "L0"), ("rllc", "L1")]
    assert groups(tmp_path, "ward", "standardize", "L1", "3") == ["0347", "125", "6"]
    assert not (tmp_path / "clusters" / "types.csv").exists()
    assert written(tmp_path, "agreement") == summary.agreed == []


def test_gaps_that_were_filled_and_parts_left_out_are_recorded(tmp_path):
    path = tmp_path / "curves.csv"
    rows = [
        line for line in lines("rllc.csv") if (line["part"], line["step"], line["dataset"]) != ("L1H2", "600", "code")
    ]
    rows += [{**line, "part": "*"} for line in rows if line["part"] == "L0H0"]
    path.write_text(
        "\n".join(["part,dataset,step,value", *(f"{r['part']},{r['dataset']},{r['step']},{r['value']}" for r in rows)])
    )
    with pytest.raises(Mistake, match=r"1 cell has no value in run curves: L1H2/code/600 \(missing\)"):
        clustering.run(tmp_path, FAST, table=path)
    assert not (tmp_path / "clusters").exists()
    clustering.run(tmp_path, replace(FAST, fill="interpolate"), table=path)
    config = json.loads((tmp_path / "clusters" / "config.json").read_text())
    assert config["filled"] == {"curves": ["L1H2/code/600"]}
    assert config["left_out"] == {"curves": ["*"]}
    assert "*" not in {line["part"] for line in written(tmp_path, "labels")}


def test_failed_clusterings_are_named_and_have_no_labels(tmp_path):
    path = tmp_path / "copies.csv"
    cells = [(p, t) for p in range(6) for t in range(4)]
    path.write_text("part,dataset,step,value\n" + "\n".join(f"p{p},d,{t},{(p % 2) * t}" for p, t in cells))
    summary = clustering.run(tmp_path, replace(FAST, methods=["kmeans", "kshape"], k=2), table=path)
    config = json.loads((tmp_path / "clusters" / "config.json").read_text())
    assert config["failed"] == summary.failed
    assert summary.failed[0] == "copies/all/kmeans/none/3 failed: only 2 of 6 curves differ"
    assert {line["k"] for line in written(tmp_path, "labels")} == {"2"}
    assert [line["value"] for line in written(tmp_path, "scores") if line["k"] == "3"] == ["nan"] * 8


def test_too_many_groups_are_refused_before_any_work(tmp_path):
    with pytest.raises(Mistake, match=r"cluster\.k: 9 is more than the 8 parts of scope L0"):
        clustering.run(sweep(tmp_path), replace(FAST, k=9), progress=lambda *_: pytest.fail("work began"))
    assert not (tmp_path / "clusters").exists()


def drawn(folder: Path) -> Path:
    """The reference curves with errors, as a table of one's own."""
    rows = [f"{r['part']},{r['dataset']},{r['step']},{r['value']},0.02" for r in lines("rllc.csv")]
    (folder / "curves.csv").write_text("\n".join(["part,dataset,step,value,error", *rows]) + "\n")
    return folder / "curves.csv"


def test_a_k_of_the_range_that_is_left_out_is_said(tmp_path, capsys):
    path = tmp_path / "curves.csv"
    rows = [f"{part},d,{step},{step * place}" for place, part in enumerate("abc", 1) for step in (0, 1, 2)]
    path.write_text("\n".join(["part,dataset,step,value", *rows]) + "\n")
    clustering.run(tmp_path, replace(FAST, k_range=[2, 3, 4], null_draws=1), table=path)
    said = "rllc: cluster.k_range: [3, 4] left out, for scope all has 3 parts and a k has to be below.\n"
    assert capsys.readouterr().err == said
    assert {line["k"] for line in written(tmp_path, "labels")} == {"2"}


def test_stability_consensus_and_support_agree_with_each_other(tmp_path):
    options = replace(FAST, draws=12, k=3, k_range=[3], null_draws=3)
    summary = clustering.run(tmp_path, options, table=drawn(tmp_path))
    config = json.loads((tmp_path / "clusters" / "config.json").read_text())
    assert config["draws_from"] == {"curves": "errors"}
    assert config["draws"] == {"kmeans": 12, "ward": 12}
    for cell, found in summary.labels.items():
        for one in found:
            rows = [
                line for line in written(tmp_path, "stability")
                if (line["scope"], line["method"], line["scaling"]) == (cell[1], one.method, one.scaling)
            ]  # fmt: skip
            assert [int(line["size"]) for line in rows] == [one.label_P.count(label) for label in range(3)]
            assert {line["draws"] for line in rows} == {"12"}
            weighted = sum(int(line["size"]) * float(line["jaccard"]) for line in rows) / 8
            assert weighted == pytest.approx(one.scores["jaccard"], abs=1e-5)
            assert all(0 < float(line["jaccard"]) <= 1 and line["reading"] for line in rows)
    for scope in ("L0", "L1"):
        share = {
            frozenset((line["a"], line["b"])): float(line["share"])
            for line in written(tmp_path, "consensus")
            if line["scope"] == scope
        }
        assert len(share) == 8 * 7 / 2
        rows = {line["part"]: line for line in written(tmp_path, "support") if line["scope"] == scope}
        for part, line in rows.items():
            own = [share[frozenset((part, other))] for other in rows
                   if other != part and rows[other]["group"] == line["group"]]  # fmt: skip
            if own:
                assert float(line["support"]) == pytest.approx(sum(own) / len(own), abs=1e-5)


def test_without_errors_nothing_is_said_of_stability(tmp_path):
    clustering.run(tmp_path, replace(FAST, draws=5), table=REFERENCE / "rllc.csv")
    errors = {line["error"] for line in lines("rllc.csv")} if "error" in lines("rllc.csv")[0] else {"nan"}
    told = {line["jaccard"] for line in written(tmp_path, "stability")}
    assert (told == {"nan"}) == (errors <= {"nan", "", "0"})


def test_runs_are_matched_with_each_other(tmp_path):
    rows = [(f"s{s}", r["part"], r["dataset"], r["step"], r["value"]) for r in lines("rllc.csv") for s in range(2)]
    path = tmp_path / "seeds.csv"
    path.write_text("run,part,dataset,step,value\n" + "\n".join(",".join(row) for row in rows) + "\n")
    clustering.run(tmp_path, replace(FAST, k=3, k_range=[3]), table=path)
    assert all((m["group_a"], m["distance"]) == (m["group_b"], "0") for m in written(tmp_path, "matches"))
    assert [line["ari"] for line in written(tmp_path, "transfer")] == ["1"] * 4


def test_constant_curves_with_errors_have_no_groups_and_no_draws(tmp_path):
    path = tmp_path / "flat.csv"
    cells = [f"L0H{p},d,{t},1.5,0.1" for p in range(5) for t in range(4)]
    path.write_text("\n".join(["part,dataset,step,value,error", *cells]) + "\n")
    summary = clustering.run(tmp_path, replace(FAST, draws=4), table=path)
    assert len(summary.failed) == 2 * 2 * 2
    assert written(tmp_path, "stability") == written(tmp_path, "consensus") == written(tmp_path, "support") == []
    assert {line["value"] for line in written(tmp_path, "scores")} == {"nan"}


def test_steps_that_differ_between_datasets_are_holes_that_are_named(tmp_path):
    path = tmp_path / "curves.csv"
    cells = [f"L0H{p},{d},{t},{p + t}" for p in range(3) for d, steps in (("a", (0, 1)), ("b", (0, 2))) for t in steps]
    path.write_text("\n".join(["part,dataset,step,value", *cells]) + "\n")
    with pytest.raises(Mistake, match=r"6 cells have no value in run curves: L0H0/a/2 \(missing\)"):
        clustering.run(tmp_path, FAST, table=path)

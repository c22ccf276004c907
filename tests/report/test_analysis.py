"""The scripts of analysis/ draw what a sweep has, and say in a sentence what it has not."""

import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import STEPS, Spec, llc_rows, options, score_rows, trace_rows, write

from rllc import clustering

ANALYSIS = Path(__file__).parents[2] / "analysis"
SCRIPTS = sorted(path.stem for path in ANALYSIS.glob("*.py") if "import drawing" in path.read_text())
HEADS = ("ngrams", "skip_ngrams", "hessian_trace", "fisher_trace", "zero_ablation", "resample_ablation")


@pytest.fixture(scope="module")
def rich(tmp_path_factory):
    """A clustered sweep that has every metric; a head's n-grams are ten times its λ̂, in the order of λ̂."""
    folder, rng = tmp_path_factory.mktemp("rich") / "demo", np.random.default_rng(0)
    folder.mkdir()
    spec = Spec(others=("*",))
    rows = llc_rows(spec, rng)
    rows += score_rows(spec, rng, rows[0])
    for row in [row for row in rows if row["metric"] == "llc" and row["part"] != "*"]:
        bare = {**row, "chains": [], "sampler": "null", "loss": "", "error": 0.1}
        rows += [{**bare, "key": f"{row['key']}/{name}", "metric": name, "value": 10 * row["value"]} for name in HEADS]
    for step in STEPS:
        bare = {**rows[0], "step": step, "dataset": "weights", "chains": [], "sampler": "null", "error": 0.0}
        for kind in "qkv":
            for pair in ("L0H0+L1H2", "L0H1+L1H3"):
                metric = f"{kind}_composition"
                rows.append({**bare, "key": f"{pair}{kind}{step}", "part": pair, "metric": metric, "value": step / 9e3})
    for row in rows:
        row["loss"] = "kl:one-layer" if row["dataset"] == "stdlib_mix" else ""
    write(folder / "estimates.parquet", rows)
    write(folder / "traces.parquet", trace_rows([row for row in rows if row["chains"]][:4], rng))
    (folder / "config.yaml").write_text("name: demo\n", encoding="utf-8")
    (folder / "env.json").write_text(json.dumps({}))
    clustering.run(folder, options(draws=2, null_draws=1))
    return folder


def run(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ANALYSIS)
    monkeypatch.setattr(sys, "argv", [f"analysis/{script}.py", str(folder)])
    importlib.import_module(script).main()


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_draws_a_sweep_that_has_everything(script, rich, monkeypatch):
    run(script, rich, monkeypatch)
    (*_, found) = sorted(rich.glob(f"figures/{script}-stdlib-s0*.svg"))
    text = found.read_text(encoding="utf-8")
    assert found.with_suffix(".png").stat().st_size > 10_000
    if script == "memorization":
        assert re.findall(r"Spearman ([\d.−-]+)", text) == ["1.00"] * 4
        assert re.findall(r">L[01] ([\d.−-]+) \(p", text) == ["1.00"] * 8
    if script == "baselines":
        assert ">stdlib_mix · kl:one-layer</text>" in text
    if script == "compositions":
        assert {">L0H0+L1H2</text>", ">K-composition</text>"} <= set(re.findall(r">[^<>]+</text>", text))


@pytest.mark.parametrize("script", ["drllcs", "memorization", "metric_comparison", "ablations_clustering"])
def test_what_is_missing_is_said_and_is_no_failure(script, clustered, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        run(script, clustered, monkeypatch)
    assert ended.value.code == 0
    assert re.fullmatch(rf"{script}: not drawn, the sweep has no .*; .*\n", capsys.readouterr().out)


def test_the_makefile_names_every_script():
    text = (ANALYSIS.parent / "Makefile").read_text()
    named = re.search(r"FIGURES := ((?:.*\\\n)*.*)", text)[1].replace("\\\n", " ").split()
    assert sorted(named) == SCRIPTS

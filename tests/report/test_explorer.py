import base64
import hashlib
import json
import re
import time

import chromium
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tokenizers import Tokenizer, decoders, models

from rllc import config, kept, plan, report
from rllc.report import explorer, source
from rllc.task import Sampler, Task

ODD = "_a $x$ <script>alert(1)</script>&\"'"
STEPS = tuple(sorted({0, *range(100, 10_000, 200), *range(10_000, 20_000, 400), *range(20_000, 50_000, 1000)}))[:107]


def content(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def decoded(text: str, kind: type) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype=kind)


def test_the_page_holds_the_numbers_of_the_tables(clustered):
    found = source.read(clustered)
    (run,) = content(explorer.page(found))["runs"]
    curves, held = found.curves[run["name"]], run["metrics"]["llc"]
    assert held["parts"] == list(curves.parts)
    for name, wanted in (("value", curves.value_PDT), ("half", curves.half_PDT)):
        assert np.array_equal(decoded(held[name], np.float32), wanted.astype(np.float32).ravel(), equal_nan=True)
    assert set(run["metrics"]) == {"llc", "prev_token", "current_token", "prefix"}
    for (_, scope, *way), labels in found.groups.labels.items():
        assert labels.items() <= run["labels"]["|".join(way)].items()
        assert {run["scopes"][part] for part in labels} == {scope}
    assert run["chosen"] == {scope: k for (_, scope), (k, _) in found.groups.chosen.items()}
    assert run["types"] == found.types(run["name"])


def test_traces_are_those_of_the_chains_to_a_level(clustered):
    found = source.read(clustered)
    (run,) = content(explorer.page(found))["runs"]
    curves, held = found.curves[run["name"]], run["traces"]
    levels = decoded(held["levels"], np.uint8).reshape(-1, 3, held["points"])
    ranges = decoded(held["range"], np.float32).reshape(-1, 2)
    (row,) = [
        row for row in found.rows
        if (row["metric"], row["part"], row["dataset"], row["step"]) == ("llc", "L1H2", "stdlib_mix", 600)
    ]  # fmt: skip
    place = np.ravel_multi_index((curves.parts.index("L1H2"), 1, curves.steps.index(600)), curves.value_PDT.shape)
    rows = parquet.read_table(clustered / "traces.parquet", filters=[("key", "=", row["key"])]).to_pylist()
    at_S = np.linspace(0, 49, held["points"])
    value_CS = np.array([np.interp(at_S, one["step"], np.array(one["excess"]) * 30) for one in rows])
    low, high = ranges[place]
    for level_S, wanted_S in zip(levels[place], (value_CS.mean(0), value_CS.min(0), value_CS.max(0)), strict=True):
        assert np.allclose(low + (high - low) * level_S / 255, wanted_S, atol=(high - low) / 500)
    assert held["last"] == 49


def test_the_policy_names_the_script_and_no_name_can_end_it(sweep):
    folder = sweep(runs=(ODD,), datasets=(ODD, "</script><img src=x onerror=alert(2)>"), steps=(0, 9))
    text = explorer.page(source.read(folder))
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert len(scripts) == 1
    assert f"script-src 'sha256-{digest}'" in text
    assert content(text)["runs"][0]["name"] == ODD
    assert text.count("</script>") == 2
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_more_traces_than_there_is_room_for_are_left_out(clustered, monkeypatch):
    monkeypatch.setattr(explorer, "TRACES", 1000)
    (run,) = content(explorer.page(source.read(clustered)))["runs"]
    assert run["traces"] is None


@pytest.fixture(scope="module")
def browser() -> str:
    return chromium.find() or pytest.skip("no Chromium is installed")


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_keys_and_pointer_find_values_and_traces(browser, clustered, tmp_path, width):
    report.draw(clustered, config.Report(traces=None, stages=[300]))
    found = source.read(clustered)
    curves = found.curves["stdlib-s0"]
    with chromium.tab(browser, tmp_path) as tab:
        tab.open(clustered / "report" / "explore.html", width)
        said = "document.getElementById('said').textContent"
        assert tab.ask("document.documentElement.scrollWidth - innerWidth") <= 0
        assert tab.ask("document.querySelectorAll('.panels svg').length") == 2
        assert tab.ask("document.querySelectorAll('.panels .stage').length") == 2
        assert tab.ask("Math.min(...[...document.querySelectorAll('.panels text')].map("
                       "one => one.getBoundingClientRect().height)) >= 10")  # fmt: skip
        tab.ask("document.querySelector('.panels svg').focus()")
        for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
            tab.key(key)
        part, step = curves.parts[1], curves.steps[1]
        value = float(f"{curves.value_PDT[1, 0, 1]:.3g}")
        assert tab.ask(said).startswith(f"{part} · stdlib_code · step {step} · llc {value:g} ± ")
        assert tab.ask("document.getElementById('detail').hidden")
        tab.ask("draw()")
        assert tab.ask("document.activeElement === document.querySelector('.panels svg')")
        tab.key("Enter")
        assert tab.ask("document.getElementById('who').textContent") == f"{part} on stdlib_code at step {step}"
        assert tab.ask("document.querySelectorAll('#trace path').length") == 2
        tab.key("Escape")
        assert tab.ask("document.getElementById('detail').hidden")
        x, y = tab.ask(
            "(() => { const b = document.querySelectorAll('.panels svg')[1]; b.scrollIntoView();"
            " const r = b.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        tab.move(x, y)
        assert " · stdlib_mix · step " in tab.ask(said)
        tab.ask("document.getElementById('none').click()")
        assert tab.ask("document.querySelectorAll('.panels .line').length") == 0
        tab.ask("document.querySelector('#heads input').click()")
        assert tab.ask("document.querySelectorAll('.panels .line').length") == 2
        assert tab.errors == []


@pytest.mark.browser
def test_what_is_not_healthy_has_a_cross_and_its_reason(browser, sweep, tmp_path):
    health = {("L0H1", "stdlib_mix", 100): ("suspect", "Stein ratio 1.31"),
              ("L1H0", "stdlib_mix", 0): ("diverged", "a loss is not finite")}  # fmt: skip
    page = tmp_path / "explore.html"
    page.write_text(explorer.page(source.read(sweep(steps=(0, 100, 300), health=health))), encoding="utf-8")
    with chromium.tab(browser, tmp_path / "profile") as tab:
        tab.open(page)
        titles = "[...document.querySelectorAll('.panels svg')].map(s => [...s.querySelectorAll('.health title')]"
        assert tab.ask(f"{titles}.map(one => one.textContent))") == [
            [], ["L0H1, step 100: suspect: Stein ratio 1.31", "L1H0, step 0: diverged: a loss is not finite"],
        ]  # fmt: skip
        tab.ask("document.querySelectorAll('.panels svg')[1].focus()")
        for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
            tab.key(key)
        assert " · suspect: Stein ratio 1.31" in tab.ask("document.getElementById('said').textContent")
        tab.ask("document.querySelector('#heads input[value=L0H1]').click()")
        assert tab.ask("document.querySelectorAll('.panels .health').length") == 1
        assert tab.errors == []


@pytest.mark.browser
def test_choices_of_the_clustering_change_the_groups(browser, clustered, tmp_path):
    folder = clustered
    report.draw(folder, config.Report(traces=None, stages=[]))
    groups = source.read(folder).groups
    with chromium.tab(browser, tmp_path) as tab:
        tab.open(folder / "report" / "explore.html")
        for method, how, k in (("ward", "none", "3"), ("kshape", "standardize", "2")):
            for name, value in (("method", method), ("scaling", how), ("k", k)):
                tab.ask(f"(one => {{ one.value = '{value}'; one.dispatchEvent(new Event('change')); }})"
                        f"(document.getElementById('{name}'))")  # fmt: skip
            for (_, scope, *way), labels in groups.labels.items():
                if way == [method, how, k]:
                    for part, label in labels.items():
                        assert tab.ask(f"kind('{part}')") == f"{scope} group {label}"
        tab.ask("document.querySelector('#keys button').click()")
        assert tab.ask("document.querySelector('#keys button').getAttribute('aria-pressed')") == "false"
        assert tab.errors == []


@pytest.mark.browser
@pytest.mark.slow
def test_144_heads_107_steps_and_two_datasets_load_in_two_seconds(browser, sweep, cluster, tmp_path):
    folder = sweep(layers=12, heads=12, steps=STEPS)
    cluster(folder, methods=["kmeans", "ward"], draws=2, null_draws=1, k_range=[2, 3, 4])
    page = tmp_path / "explore.html"
    page.write_text(explorer.page(source.read(folder)), encoding="utf-8")
    with chromium.tab(browser, tmp_path / "profile") as tab:
        began = time.monotonic()
        tab.open(page)
        ready = float(tab.ask("document.documentElement.dataset.ready"))
        print(f"ready after {ready:.0f} ms, {time.monotonic() - began:.2f} s in all, {page.stat().st_size} bytes")
        assert tab.ask("document.querySelectorAll('.panels .line').length") == 2 * 144
        assert ready < 2000
        assert tab.errors == []


def test_without_curves_there_is_no_page_and_an_old_one_goes(sweep):
    folder = sweep(steps=(0, 100))
    report.draw(folder, config.Report(traces=None, stages=None))
    assert (folder / "report" / "explore.html").exists()
    rows = [row for row in parquet.read_table(folder / "estimates.parquet").to_pylist() if row["metric"] != "llc"]
    table = pa.Table.from_pylist(rows).replace_schema_metadata({"rllc.schema": "1"})
    parquet.write_table(table, folder / "estimates.parquet")
    report.draw(folder, config.Report(traces=None, stages=None))
    assert not (folder / "report" / "explore.html").exists()


def test_clusters_of_other_sweeps_are_not_needed(sweep):
    text = explorer.page(source.read(sweep(steps=(0, 100), scores=False)))
    (run,) = content(text)["runs"]
    assert run["labels"] == run["support"] == run["types"] == {}


def test_the_text_a_head_reacts_to_is_that_of_its_largest_losses(sweep, tmp_path):
    folder = sweep("root/sweeps/demo", steps=(0, 100), scores=False)
    words = ["def", " f", "(", "<script>", "&", ")", ":"]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token=words[0]))
    tokenizer.decoder = decoders.Fuse()
    for name in ("runs/stdlib-s0/checkpoints", "data"):
        (tmp_path / "root" / name).mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(tmp_path / "root/runs/stdlib-s0/tokenizer.json"))
    tokens_NL = np.array([[0, 1, 2, 3, 5, 6], [0, 1, 2, 4, 5, 6]], dtype=np.uint16)
    np.save(tmp_path / "root/data/rows.npy", tokens_NL)
    sampler = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=2, draws=2, burn_in=0, batch=1)
    cells = [
        plan.Cell(Task("stdlib-s0", "w", step, "L1H2", "stdlib_code", "r", "llc", 0, sampler),
                  f"runs/stdlib-s0/checkpoints/step_{step:07d}.safetensors", "data/rows.npy", 1.0, keep=True)
        for step in (0, 100)
    ]  # fmt: skip
    plan.write(folder, cells)
    excess = {(1, 3): 0.5, (0, 3): 2.0, (0, 1): -1.0}
    columns = {
        "row": [row for row, _ in excess], "position": [at for _, at in excess],
        "token": [int(tokens_NL[where]) for where in excess], "excess": list(excess.values()),
    }  # fmt: skip
    kept.path(folder, cells[1].task.key).parent.mkdir(parents=True)
    parquet.write_table(pa.table(columns), kept.path(folder, cells[1].task.key))
    wanted = [
        "stdlib_code: def f(⟦<script>⟧ +2.00", "stdlib_code: def f(⟦&⟧ +0.50", "stdlib_code: def⟦ f⟧ -1.00",
    ]  # fmt: skip
    text = explorer.page(source.read(folder))
    assert content(text)["runs"][0]["texts"] == {"L1H2": wanted}
    assert "<script>⟧" not in text

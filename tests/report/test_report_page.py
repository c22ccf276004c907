import base64
import html.parser
import re
import subprocess
import sys

import pytest

from rllc import config, report
from rllc.mistake import Mistake
from rllc.report import contents, page, source, tables

NAME = "_a $x$ <script>alert(1)</script>&\"'"
VOID = {"meta", "link", "img", "br"}


LOST = {
    (f"L0H{head}", f"stdlib_{name}", step): ("diverged", "x")
    for head in range(2)
    for name in ("code", "mix")
    for step in (0, 9)
}


class Page(html.parser.HTMLParser):
    """Check that tags are balanced, and collect what could load something."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.sources, self.ids, self.targets, self.alts = [], [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        self.sources += [found[name] for name in ("src", "srcset", "data", "poster") if name in found]
        self.sources += [found["href"]] if tag == "link" else []
        self.targets += [found["href"]] if tag == "a" else []
        self.ids += [found["id"]] if "id" in found else []
        self.alts += [found.get("alt")] if tag == "img" else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def draw(folder, traces=None, **options):
    files = report.draw(folder, config.Report(traces=traces, stages=None), **options)
    return files, (folder / "report" / "index.html").read_text(encoding="utf-8")


def words(folder):
    """Give the page without its figures."""
    return page.page(source.read(folder), [], {}, {})


@pytest.fixture(scope="module")
def drawn(clustered):
    return draw(clustered, seconds={"launch": 81.25, "cluster": 3.0})


def test_the_page_is_balanced_and_loads_nothing(drawn):
    files, text = drawn
    parsed = Page(text)
    assert parsed.open == []
    assert all(address.startswith("data:") for address in parsed.sources)
    assert not re.search(r"@import|url\(", text)
    assert not re.search(r"https?://", text)
    assert "script" not in parsed.tags
    assert parsed.tags.count("img") == sum(path.suffix == ".png" for path in files) > 5
    assert all(parsed.alts)
    assert len(parsed.ids) == len(set(parsed.ids))
    inside = [target for target in parsed.targets if target.startswith("#")]
    assert {target[1:] for target in inside} <= set(parsed.ids)
    beside = {target for target in parsed.targets if not target.startswith("#")}
    assert beside == {path.name for path in files if path.name != "index.html"}
    assert len(text) < 6_000_000


def test_embedded_pictures_are_the_files(drawn):
    files, text = drawn
    for path in files:
        if path.suffix == ".svg":
            assert base64.b64encode(path.read_bytes()).decode() in text


def test_svg_keeps_text_as_text_and_carries_no_date(drawn):
    files, _ = drawn
    (path,) = [path for path in files if path.name == "curves-stdlib-s0.svg"]
    text = path.read_text()
    assert ">L0 · stdlib_code</text>" in text
    assert ">λ̂ (nats)</text>" in text
    assert "dc:date" not in text


@pytest.mark.usefixtures("styled")
def test_the_same_files_give_the_same_bytes(drawn, clustered, tmp_path):
    files, _ = drawn
    before = {path.name: path.read_bytes() for path in files if path.suffix == ".svg"}
    for picture in contents.pictures(source.read(clustered)):
        path = tmp_path / f"{picture.name}.svg"
        picture.draw().savefig(path, metadata={"Date": None, "Creator": None})
        assert path.read_bytes() == before.pop(path.name)
    assert not before


def test_the_summary_counts_and_names_the_primary(sweep, cluster):
    health = {
        ("L0H1", "stdlib_mix", 300): ("suspect", "step too large: Stein ratio 1.31"),
        ("L0H1", "stdlib_mix", 400): ("short", "12 kept steps"),
    }
    folder = sweep(health=health)
    cluster(folder, k=2)
    text = words(folder)
    assert "1 training run (stdlib-s0), 12 checkpoints (steps 0 to 1600), 8 heads, 2 datasets" in text
    assert "192 estimates of λ̂: 190 ok, 1 suspect, 1 short, 0 diverged; beside them 480 attention scores." in text
    assert "The primary clustering is kmeans with scaling standardize; it was named in the configuration before" in text
    assert "L1: k = 2 (given), agreement with head types: ARI 1.00, AMI 1.00, p = " in text
    assert "stands in for the Pile" in text
    assert "Stein ratio 1.31" in text


def test_stages_packages_code_and_configuration_are_there(drawn):
    _, text = drawn
    for piece in ("81.2", "2.6.0", "3.12.1", "0.1.0+abc1234", "nbeta: 30.0 # &lt;nβ&gt;", "Measured by rllc"):
        assert piece in text


def test_names_are_escaped_everywhere(sweep):
    health = {("L0H1", NAME, 300): ("diverged", "a <b>loss</b> & more")}
    folder = sweep(runs=(NAME,), datasets=(NAME, "pile"), health=health, steps=(0, 300), heads=2)
    files, text = draw(folder)
    assert "<script" not in text
    assert "<b>" not in text
    assert "a &lt;b&gt;loss&lt;/b&gt; &amp; more" in text
    assert Page(text).open == []
    for path in files:
        assert re.fullmatch(r"[A-Za-z0-9._=,+~-]+", path.name)
        if path.suffix == ".svg":
            assert "<script" not in path.read_text()


def test_runs_whose_names_make_the_same_file_name_are_told_apart(sweep):
    names = [one.name for one in contents.pictures(source.read(sweep(runs=("a b", "a/b", "A/b"), steps=(0, 100))))]
    assert len({name.lower() for name in names}) == len(names)
    found = [name for name in names if name.lower().startswith("curves-a_b")]
    assert found == ["curves-A_b", "curves-a_b~2", "curves-a_b~3"]


@pytest.mark.parametrize(
    "changed",
    [
        {"steps": (0,)},
        {"datasets": ("pile",)},
        {"heads": 1, "layers": 1, "datasets": ("pile",), "steps": (0,), "chains": 1, "scores": False},
        {"datasets": tuple("abcd"), "steps": (0, 1)},
        {"health": LOST},
        {"seeds": 2, "others": ("*",)},
    ],
    ids=["one step", "one dataset", "one of all", "four datasets", "a layer without a number", "seeds"],
)  # fmt: skip
def test_small_and_broken_sweeps_are_drawn(sweep, changed):
    files, text = draw(sweep(**{"steps": (0, 9), "heads": 2, **changed}))
    assert Page(text).open == []
    assert "The curves have not been clustered." in text
    assert all(path.stat().st_size > 0 for path in files)


@pytest.mark.slow
def test_64_heads_are_drawn(sweep, cluster):
    folder = sweep(heads=64, layers=1, steps=range(0, 3000, 100))
    cluster(folder, methods=["kmeans"], scalings=["standardize"])
    _, text = draw(folder)
    assert len(text) < 6_000_000


def test_a_table_made_elsewhere_needs_no_sweep(tmp_path, cluster):
    table = tmp_path / "curves.csv"
    lines = [f"{p},d,{step},{step * (p + 1)}" for p in range(5) for step in (1, 10, 100, 1000)]
    table.write_text("\n".join(["part,dataset,step,value", *lines]) + "\n")
    folder = tmp_path / "curves"
    cluster(folder, table=table, methods=["kmeans"], scalings=["none"], primary=config.Primary("kmeans", "none"))
    files, text = draw(folder, table=table)
    names = {path.name for path in files}
    assert {"parts-curves.png", "groups-curves-all.png", "silhouette-curves.svg"} <= names
    assert not any(name.startswith(("training", "traces", "scores", "agreement")) for name in names)
    assert "5 other parts" in text
    assert "20 estimates of value: 20 ok" in text
    assert "cannot be compared with types of heads" in text


def test_failed_clusterings_and_filled_cells_are_named(sweep, cluster):
    folder = sweep(absent=frozenset({("L0H1", "stdlib_code", 300)}))
    cluster(folder, fill="interpolate", methods=["kmeans"], k=4, k_range=[2])
    settings = folder / "clusters" / "config.json"
    failure = "stdlib-s0/L0/kmeans/none/4 failed: only <3> of 4 curves differ"
    settings.write_text(settings.read_text().replace('"failed": []', f'"failed": ["{failure}"]'))
    text = words(folder)
    assert "Cells that were filled by interpolation (1): stdlib-s0/L0H1/stdlib_code/300." in text
    assert "Clusterings that failed (1): stdlib-s0/L0/kmeans/none/4 failed: only &lt;3&gt; of 4 curves differ." in text


def test_clusters_of_curves_that_have_holes_now_are_told(sweep, cluster):
    folder = sweep(steps=(0, 100, 400))
    cluster(folder, methods=["kmeans"])
    holed = sweep("other", steps=(0, 100, 400), absent=frozenset({("L0H1", "stdlib_code", 100)}))
    (holed / "estimates.parquet").replace(folder / "estimates.parquet")
    text = words(folder)
    assert "The figures of groups are left out, since the curves have changed: " in text
    assert "L0H1/stdlib_code/100 (missing)" in text
    assert not [one for one in contents.pictures(source.read(folder)) if one.name.startswith("groups")]


def test_no_estimates_is_a_mistake_and_writes_nothing(tmp_path):
    with pytest.raises(Mistake, match=r"estimates\.parquet: there is no such file"):
        draw(tmp_path)
    assert not (tmp_path / "report").exists()


def test_figures_of_an_earlier_report_go_and_other_files_stay(sweep):
    folder = sweep(steps=(0, 100), scores=False, heads=1)
    (folder / "report").mkdir()
    for name in ("curves-old.png", "curves-old.svg", "stamp.txt"):
        (folder / "report" / name).write_text("old")
    files, _ = draw(folder)
    assert sorted((folder / "report").iterdir()) == sorted([*files, folder / "report" / "stamp.txt"])


def test_progress_counts_to_its_total(sweep):
    told = []
    files, _ = draw(
        sweep(steps=(0, 100), scores=False, heads=1), progress=lambda done, total: told.append((done, total))
    )
    pictures = sum(path.suffix == ".png" for path in files)
    assert told == [(n + 1, pictures) for n in range(pictures)]


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.2837, 0.0318, "1.284 ± 0.032"), (0.5, 2.4, "0.5 ± 2.4"), (-12.3, 31.0, "−12 ± 31"),
        (float("nan"), 0.1, "–"), (0.123456, float("nan"), "0.123"), (2.0, 0.0, "2"),
    ],
)  # fmt: skip
def test_a_value_is_written_to_the_second_digit_of_its_error(value, error, text):
    assert tables.measured(value, error) == text


def test_the_report_needs_neither_torch_nor_hydra():
    code = "import sys, rllc.report; print([name for name in ('torch', 'hydra', 'matplotlib') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(("q95", "weak"), [("0.05", False), ("0.99", True)])
def test_the_summary_says_when_a_silhouette_is_within_its_null(sweep, cluster, q95, weak):
    folder = sweep()
    cluster(folder, k=2)
    table = folder / "clusters" / "scores.csv"
    head, *lines = table.read_text().splitlines()
    place = head.split(",").index("null_q95")
    changed = [[*line.split(",")[:place], q95, *line.split(",")[place + 1 :]] for line in lines]
    table.write_text("\n".join([head, *map(",".join, changed)]) + "\n")
    assert ("within the null, so it is no evidence of groups" in words(folder)) == weak

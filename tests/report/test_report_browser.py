import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rllc import config, report

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--virtual-time-budget=3000",
)  # fmt: skip
PROBE = """<script>addEventListener("load", () => {
const images = [...document.images];
document.title = JSON.stringify({
  overflow: document.documentElement.scrollWidth - innerWidth,
  images: images.length, broken: images.filter(one => !one.complete || one.naturalWidth == 0).length,
  loaded: performance.getEntriesByType("resource").filter(one => !one.name.startsWith("data:")).map(one => one.name),
  ink: getComputedStyle(document.body).color, paper: getComputedStyle(document.body).backgroundColor })});
</script></head>"""

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("no Chromium is installed")


def visit(chromium, index, tmp_path, *flags, width=1200):
    """Open a copy of the page that reports on itself in its title; give that report, and the console's lines."""
    text = index.read_text(encoding="utf-8")
    probed = tmp_path / "probed.html"
    without = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    probed.write_text(without.replace("</head>", PROBE), encoding="utf-8")
    lines, dom = "", ""
    for file in (index, probed):
        command = [
            chromium, *FLAGS, *flags, f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},1000",
            "--dump-dom", file.as_uri(),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        lines, dom = lines + done.stderr, done.stdout
    title = re.search(r"<title>(.*?)</title>", dom, re.S)[1]
    return json.loads(title), [line for line in lines.splitlines() if "CONSOLE" in line]


@pytest.mark.parametrize("width", [1200, 420])
def test_the_page_opens_without_errors_overflow_or_loads(chromium, clustered, tmp_path, width):
    files = report.draw(clustered, config.Report(traces=None, stages=None))
    found, console = visit(chromium, files[0], tmp_path, width=width)
    assert console == []
    assert found["overflow"] <= 0
    assert found["images"] == (len(files) - 1) // 2
    assert found["broken"] == 0
    assert found["loaded"] == []


def luminance(colour: str) -> float:
    return sum(int(number) for number in re.findall(r"\d+", colour)[:3]) / 765


@pytest.mark.parametrize(("scheme", "dark"), [(0, True), (1, False)])
def test_light_and_dark_are_readable(chromium, sweep, tmp_path, scheme, dark):
    folder: Path = sweep(steps=(0, 100), scores=False)
    report.draw(folder, config.Report(traces=None, stages=None))
    index = folder / "report" / "index.html"
    found, _ = visit(chromium, index, tmp_path, f"--blink-settings=preferredColorScheme={scheme}")
    ink, paper = luminance(found["ink"]), luminance(found["paper"])
    assert abs(ink - paper) > 0.7
    assert (paper < ink) == dark

"""The page in a real browser: nothing is loaded, nothing is wider than the window, both colour schemes can be read."""

import re
from pathlib import Path

import chromium
import pytest

from rllc import config, report

IMAGES = "[...document.images]"
LOADED = 'performance.getEntriesByType("resource").map(one => one.name).filter(name => !name.startsWith("data:"))'

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> str:
    return chromium.find() or pytest.skip("no Chromium is installed")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_without_errors_overflow_or_loads(browser, clustered, tmp_path, width):
    files = report.draw(clustered, config.Report(traces=None, stages=None))
    with chromium.tab(browser, tmp_path) as tab:
        tab.open(files[0], width)
        assert tab.ask("document.documentElement.scrollWidth - innerWidth") <= 0
        assert tab.ask(f"{IMAGES}.length") == sum(path.suffix == ".png" for path in files)
        assert tab.ask(f"{IMAGES}.filter(one => !one.complete || one.naturalWidth == 0).length") == 0
        assert tab.ask(LOADED) == []
        assert tab.errors == []


def luminance(colour: str) -> float:
    return sum(int(number) for number in re.findall(r"\d+", colour)[:3]) / 765


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_light_and_dark_are_readable(browser, sweep, tmp_path, scheme):
    folder: Path = sweep(steps=(0, 100), scores=False)
    report.draw(folder, config.Report(traces=None, stages=None))
    with chromium.tab(browser, tmp_path / "profile") as tab:
        tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        tab.open(folder / "report" / "index.html")
        ink, paper = (
            luminance(tab.ask(f"getComputedStyle(document.body).{name}")) for name in ("color", "backgroundColor")
        )
    assert abs(ink - paper) > 0.7
    assert (paper < ink) == (scheme == "dark")

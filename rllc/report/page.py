"""The page: one HTML file that holds everything and loads nothing."""

import base64
import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rllc import version
from rllc.report import summary, tables
from rllc.report.picture import Picture
from rllc.report.sheet import CSS
from rllc.report.source import Source

VECTOR = 300_000  # bytes of an SVG above which the PNG stands in the page
ROOM = 5_500_000  # bytes of figures in the page; what does not fit is linked
LISTED = 50  # cells or clusterings that are named
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
HTML = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>rllc: {name}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<style>{css}</style>
</head>
<body>
<header><h1>{name}</h1>{explore}</header>
<nav aria-label="Contents"><ul>
{contents}
</ul></nav>
<main>
{body}
</main>
</body>
</html>
"""
EXPLORE = (
    '<p><a href="explore.html">Explore the curves</a>: pick heads, datasets and groupings, and look behind a point.</p>'
)
STATS = (
    "Stein ratio: 1 for an exact sampler, larger when the step is too large. Effective draws: of all chains "
    "together. R-hat: 1 when the chains agree. Burn-in bias: relative, of the softest direction, because chains "
    "start at the checkpoint. Localised: share of the weights' freedom that γ holds rather than the loss. Drift: "
    "second half of the kept draws minus the first."
)


def page(
    source: Source, pictures: Sequence[Picture], files: Mapping[str, Sequence[Path]], seconds: Mapping[str, float]
) -> str:
    """Write the page.

    Args:
        source: what was read.
        pictures: the figures, in order.
        files: the PNG and the SVG of each figure, by its name.
        seconds: wall time of each stage.
    """
    name = html.escape(source.sweep.resolve().name)
    sections = {
        "Summary": _paragraphs(summary.findings(source)),
        "How to read this": _paragraphs(summary.reading(source)),
    }
    sections |= _figures(pictures, files)
    sections |= _tables(source)
    sections |= {"How it was made": _made(source, seconds)}
    contents = "\n".join(f'<li><a href="#s{n}">{html.escape(title)}</a></li>' for n, title in enumerate(sections))
    body = "\n".join(
        f'<section aria-labelledby="s{n}"><h2 id="s{n}">{html.escape(title)}</h2>\n{text}\n</section>'
        for n, (title, text) in enumerate(sections.items())
    )
    explore = EXPLORE if source.curves else ""
    return HTML.format(name=name, policy=POLICY, css=CSS, explore=explore, contents=contents, body=body)


def _figures(pictures: Sequence[Picture], files: Mapping[str, Sequence[Path]]) -> dict[str, str]:
    """Write the sections of figures; those that do not fit are links to the files beside the page."""
    sections: dict[str, str] = {}
    room = ROOM
    for picture in pictures:
        png, svg = files[picture.name]
        image = _embedded(png, svg)
        title = html.escape(picture.title)
        if len(image) <= room:
            room -= len(image)
            shown = f'<div class="scroll"><img src="{image}" alt="{title}"></div>'
        else:
            shown = f'<p>Not in this page, to keep it small: <a href="{_link(png)}">{html.escape(png.name)}</a></p>'
        sections[picture.section] = sections.get(picture.section, "") + (
            f"<h3>{title}</h3>\n<figure>{shown}\n<figcaption>{html.escape(picture.caption)} "
            f'<a href="{_link(png)}">PNG</a> <a href="{_link(svg)}">SVG</a></figcaption></figure>\n'
        )
    return sections


def _embedded(png: Path, svg: Path) -> str:
    kind, path = ("svg+xml", svg) if svg.stat().st_size <= VECTOR else ("png", png)
    return f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _link(path: Path) -> str:
    return html.escape(path.name, quote=True)


def _tables(source: Source) -> dict[str, str]:
    sections = {"Heads": "\n".join(tables.heads(source, run) for run in source.curves)} if source.curves else {}
    if source.groups is not None:
        sections["Agreement in numbers"] = "\n".join(
            [*tables.agreement(source), tables.transfers(source), _notes(source)]
        )
    sections["Health of the estimates"] = tables.unhealthy(source)
    if source.metric == "llc":
        sections["Health of the estimates"] += f"\n{tables.health(source)}\n<p>{html.escape(STATS)}</p>"
    return sections


def _notes(source: Source) -> str:
    """Name what clustering filled, left out or could not do."""
    assert source.groups is not None
    settings = source.groups.settings
    notes = {
        "Clusterings that failed": settings.get("failed", []),
        "Cells that were filled by interpolation": _of_runs(settings.get("filled", {})),
        "Parts that are no heads, and were not clustered": _of_runs(settings.get("left_out", {})),
    }
    said = [
        f"{title} ({len(found)}): {', '.join(found[:LISTED])}{', …' if len(found) > LISTED else ''}."
        for title, found in notes.items()
        if found
    ]
    said += [source.trouble] if source.trouble else []
    return _paragraphs(said or ["No clustering failed, and no cell was filled."])


def _of_runs(found: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"{run}/{name}" for run, names in found.items() for name in names]


def _made(source: Source, seconds: Mapping[str, float]) -> str:
    """Say with which code, packages and configuration, and in what time."""
    measured = sorted({str(row["code"]) for row in source.rows if row["code"]})
    said = [
        f"Measured by rllc {', '.join(measured)}." if measured else "The estimates were made elsewhere.",
        f"This report was written by rllc {version.code()}.",
    ]
    packages = {**source.environment.get("packages", {})}
    if python := source.environment.get("python"):
        packages = {"Python": python, **packages}
    pieces = [_paragraphs([" ".join(said)])]
    if seconds:
        lines = [(stage, f"{spent:.1f}") for stage, spent in seconds.items()]
        pieces.append(tables.table("Wall time of this command's stages", ("stage", "seconds"), lines))
    if packages:
        lines = [(name, str(number)) for name, number in packages.items()]
        pieces.append(tables.table("Packages when the sweep was planned", ("package", "version"), lines))
    if source.config:
        pieces.append(f"<details><summary>Configuration</summary>\n<pre>{html.escape(source.config)}</pre></details>")
    return "\n".join(pieces)


def _paragraphs(texts: Iterable[str]) -> str:
    return "\n".join(f"<p>{html.escape(text)}</p>" for text in texts)

"""The folder report/ of a sweep: every figure as PNG and SVG, the page, and the interactive page."""

from collections.abc import Callable, Mapping
from pathlib import Path

from rllc import atomic, config
from rllc.report import contents, explorer, page, source, style

Progress = Callable[[int, int], object]


def draw(
    sweep: Path,
    report: config.Report,
    *,
    seconds: Mapping[str, float] | None = None,
    table: Path | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Draw the report of a sweep from its gathered files; figures of an earlier report that are gone are removed.

    Args:
        sweep: folder of the sweep; training losses, traces and clusters may be absent.
        report: choices of the report.
        seconds: wall time of the stages before, to be shown.
        table: long table of curves (CSV or Parquet) to draw instead of the sweep's estimates.
        progress: called with the number of figures drawn and their total.

    Returns:
        The files written: index.html first, explore.html where there are curves, then PNG and SVG of each figure.

    Raises:
        Mistake: there are no estimates, they have another schema, or the part for the traces does not exist.
    """
    found = source.read(sweep, traces=report.traces, table=table, by_hand=report.stages)
    pictures = contents.pictures(found)
    folder = sweep / "report"
    files: dict[str, list[Path]] = {}
    with style.settings():
        for done, picture in enumerate(pictures, start=1):
            files[picture.name] = style.save(picture.draw(), folder / picture.name)
            if progress:
                progress(done, len(pictures))
    index = folder / "index.html"
    atomic.write_text(index, page.page(found, pictures, files, seconds or {}))
    explore = folder / "explore.html"
    atomic.write_text(explore, explorer.page(found)) if found.curves else explore.unlink(missing_ok=True)
    written = [path for paths in files.values() for path in paths]
    for path in [*folder.glob("*.png"), *folder.glob("*.svg")]:
        if path not in written:
            path.unlink()
    return [index, *[explore] * bool(found.curves), *written]

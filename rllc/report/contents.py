"""All figures of a report, in the order of the page."""

from collections.abc import Sequence
from dataclasses import replace

from rllc.report import (
    agreement,
    cards,
    consensus,
    curves,
    members,
    overview,
    pairs,
    scores,
    shapes,
    silhouette,
    stability,
    stages,
    traces,
    training,
)
from rllc.report.picture import Picture
from rllc.report.source import Source

CHAPTERS = (
    *(
        training,
        stages,
        curves,
        overview,
        pairs,
        cards,
        members,
        silhouette,
        stability,
        consensus,
        shapes,
        agreement,
        scores,
    ),
    traces,
)


def pictures(source: Source) -> list[Picture]:
    """Give every figure for which there is something to show, each with a file name of its own."""
    return _told_apart([picture for chapter in CHAPTERS for picture in chapter.pictures(source)])


def _told_apart(found: Sequence[Picture]) -> list[Picture]:
    """Number the names that two figures share (runs whose names differ only in signs that files do not take)."""
    seen: dict[str, int] = {}
    apart = []
    for picture in found:
        lower = picture.name.lower()
        seen[lower] = count = seen.get(lower, 0) + 1
        apart.append(replace(picture, name=f"{picture.name}~{count}") if count > 1 else picture)
    return apart

"""Which colour, line and marker every part is drawn in: by its group, its type, or its place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rllc.report.estimates import Curves
from rllc.report.grouping import Groups

# Okabe and Ito (2008) without yellow, which is too light for a line on white; line and marker are the second channel.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (6, 1.5, 1, 1.5, 1, 1.5)))
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
TYPES = ("previous-token", "induction", "current-token")


@dataclass(frozen=True)
class Look:
    """Colour, line style and marker."""

    colour: str
    line: Any
    marker: str


PLAIN = Look("#777777", "-", ".")


def look(index: int) -> Look:
    """Give the look of the index-th of several things."""
    return Look(COLOURS[index % len(COLOURS)], LINES[index % len(LINES)], MARKERS[index % len(MARKERS)])


def of_type(name: str) -> Look:
    """Give the look of a head type, the same in all figures."""
    return look(TYPES.index(name)) if name in TYPES else PLAIN


def of_parts(curves: Curves, groups: Groups | None) -> dict[str, Look]:
    """Give each part the look of its group in the primary clustering, or of its place in its layer without one."""
    labels = group_labels(curves.run, groups)
    if labels:
        return {part: look(labels[part]) if part in labels else PLAIN for part in curves.parts}
    places = [*curves.layers().values(), curves.others()]
    return {curves.parts[p]: look(n) for inside in places for n, p in enumerate(inside)}


def group_labels(run: str, groups: Groups | None) -> dict[str, int]:
    """Label of each part in the primary clustering at the main k of its scope."""
    if groups is None:
        return {}
    found = [groups.main(run, scope, *groups.primary) for scope in groups.scopes(run)]
    return {part: label for labels in found for part, label in labels.items()}


def group_legend(parts: Sequence[str], labels: Mapping[str, int]) -> list[tuple[str, Look]]:
    """Name the groups of some parts with their sizes among them."""
    inside = [labels[part] for part in parts if part in labels]
    legend = [(f"group {label} ({inside.count(label)})", look(label)) for label in sorted(set(inside))]
    return [*legend, ("not clustered", PLAIN)] if legend and len(inside) < len(parts) else legend


def type_legend(parts: Sequence[str], types: Mapping[str, str]) -> list[tuple[str, Look]]:
    """Name the types of some parts with their numbers among them."""
    inside = [types[part] for part in parts if part in types]
    ordered = [*TYPES, *sorted(set(inside) - set(TYPES))]
    return [(f"{name} ({inside.count(name)})", of_type(name)) for name in ordered if name in inside]

"""The rows side by side: on the terminal, as CSV, and whether each family comes out in the right order."""

import csv
import dataclasses
import io
import itertools
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rllc.validation.rows import Row

TITLES = (
    "case",
    "weights",
    "λ",
    "m",
    "expected",
    "rllc",
    "± error",
    "off",
    "devinterp",
    "off",
    "rllc s",
    "devinterp s",
    "ε p/2",
)


@dataclass(frozen=True)
class Order:
    """How the estimates of a family are ordered against the exact values, of rllc and of devinterp.

    Kendall's τ_b and Spearman's ρ (1: the same order), and how many pairs of cases with different λ are the wrong way
    round.
    """

    family: str
    cases: int
    kendall: float
    spearman: float
    swapped: int
    devinterp_kendall: float
    devinterp_spearman: float
    devinterp_swapped: int


def orders(rows: Sequence[Row]) -> list[Order]:
    """Compare the order of each family of at least two cases."""
    families = {row.family: [other for other in rows if other.family == row.family] for row in rows}
    made = []
    for family, members in families.items():
        if len(members) > 1:
            ours = _agreement([(row.exact, row.value) for row in members])
            theirs = _agreement([(row.exact, row.devinterp) for row in members])
            made.append(Order(family, len(members), *ours, *theirs))
    return made


def text(lines: Sequence[Row] | Sequence[Order]) -> str:
    """Write them as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [field.name for field in dataclasses.fields(lines[0])], lineterminator="\n")
    writer.writeheader()
    writer.writerows(dataclasses.asdict(line) for line in lines)
    return out.getvalue()


def show(rows: Sequence[Row], found: Sequence[Order]) -> None:
    """Print the table on a terminal, plain lines elsewhere, and the order of each family under it."""
    if sys.stdout.isatty():
        _rich(rows)
    else:
        for row in rows:
            print("; ".join(f"{title} {cell}" for title, cell in zip(TITLES, _cells(row), strict=True) if cell))
    for order in found:
        print(
            f"order of {order.family}, {order.cases} cases: Kendall {order.kendall:.2f}, {order.swapped} pairs wrong; "
            f"devinterp {order.devinterp_kendall:.2f}, {order.devinterp_swapped} wrong"
        )
    for row in rows:
        if row.note:
            print(f"{row.name}: {row.note}")


def _rich(rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*TITLES)
    for column in table.columns[1:]:
        column.justify = "right"
    for before, row in zip([None, *rows], rows, strict=False):
        if before is not None and before.family != row.family:
            table.add_section()
        table.add_row(*_cells(row))
    Console().print(table)


def _cells(row: Row) -> list[str]:
    return [
        row.name, str(row.weights), f"{row.exact:g}", str(row.multiplicity), _number(row.expected), _number(row.value),
        _number(row.error), _share(row.relative), _number(row.devinterp), _share(row.devinterp_relative),
        _number(row.seconds), _number(row.devinterp_seconds), _number(row.stiff),
    ]  # fmt: skip


def _agreement(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, int]:
    """Kendall's τ_b, Spearman's ρ and swapped pairs of (exact, estimate); NaN and 0 without estimates."""
    from scipy import stats

    exact, found = zip(*pairs, strict=True)
    if not all(map(math.isfinite, found)):
        return math.nan, math.nan, 0
    swapped = sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for a, b in itertools.combinations(pairs, 2))
    kendall, spearman = stats.kendalltau(exact, found), stats.spearmanr(exact, found)
    return float(kendall.statistic), float(spearman.statistic), swapped


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _share(value: float) -> str:
    return "" if math.isnan(value) else f"{value:+.1%}"

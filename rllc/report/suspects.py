"""The chains that are not to be trusted as they are: a list of their estimates, and pictures of their losses."""

from collections import Counter
from pathlib import Path
from typing import Any

from rllc import atomic
from rllc.report import estimates, style
from rllc.report.estimates import Row
from rllc.report.traces import panel
from rllc.task import HEALTH

WATCHED = ("suspect", "diverged")
LISTED = ("run", "part", "dataset", "step", "seed", "value", "error", "health", "reason")
SHOWN, COLUMNS = 24, 4  # panels, and how many stand side by side


def found(sweep: Path) -> list[Row]:
    """Read the estimates whose health is suspect or diverged, the worst first, then in the order of the table."""
    from pyarrow import parquet

    file = sweep / "estimates.parquet"
    if not file.exists():
        return []
    wanted = [("metric", "==", "llc"), ("health", "in", WATCHED)]
    kept = set(parquet.read_schema(file).names)
    columns = [name for name in ("key", *LISTED, "sampler", "chains", "freedom") if name in kept]
    rows = parquet.read_table(file, columns=columns, filters=wanted).to_pylist()
    return sorted(
        ({**estimates.DEFAULTS, **{name: value for name, value in row.items() if value is not None}} for row in rows),
        key=lambda row: -HEALTH.index(row["health"]),
    )


def table(rows: list[Row]) -> list[dict[str, Any]]:
    """The estimates as a person reads them."""
    return [{name: row[name] for name in LISTED} for row in rows]


def draw(sweep: Path, rows: list[Row], file: Path) -> list[Path]:
    """Draw the losses of the first SHOWN estimates that have traces, a panel each, as one PNG; none if none has."""
    chains = estimates.traces(sweep, [row["key"] for row in rows[:SHOWN]])
    shown = [row for row in rows[:SHOWN] if row["key"] in chains]
    if not shown:
        return []
    counts = Counter(row["health"] for row in rows)
    said = ", ".join(f"{counts[health]} {health}" for health in WATCHED if counts[health])
    with style.settings():
        box = style.across(COLUMNS, 1.6, left=0.66, right=0.12)
        title = f"Chains of {len(shown)} of {len(rows)} estimates ({said})"
        figure, panels = style.panels(len(shown), COLUMNS, box, title=title)
        for axes, row in zip(panels, shown, strict=True):
            axes.set_title(f"{style.shown(row['part'])} · {style.shown(row['dataset'])} · step {row['step']}")
            panel(axes, row, chains[row["key"]])
        atomic.write(file, lambda path: figure.savefig(path, format="png", dpi=100, metadata={"Software": None}))
    return [file]

"""What a person is told at the end: where everything lies, how healthy the chains are, what the clusters agree with."""

from collections import Counter
from pathlib import Path
from typing import Any

from rllc import csv_tables, gather
from rllc.task import HEALTH
from rllc.track.collector import TABLE_ROWS

FILES = {
    "figures": "report/*.png",
    "page": "report/index.html",
    "estimates": "estimates.parquet",
    "clusters": "clusters/labels.csv",
}


def summary(sweep: Path) -> str:
    """A few lines for a terminal, from the sweep's own files."""
    lines = [f"{what:10}{sweep / name}" for what, name in FILES.items() if any(sweep.glob(name))]
    if (sweep / "estimates.parquet").exists():
        lines.append(f"health    {_health(sweep / 'estimates.parquet')}")
    inside = _inside_null(sweep / "clusters" / "scores.csv")
    for row in csv_tables.read(sweep / "clusters" / "agreement.csv"):
        if row["primary"] == "true":
            lines.append(_agreement(row, inside))
    return "\n".join(lines)


def overview(sweep: Path) -> tuple[dict[str, list[dict[str, Any]]], list[Path]]:
    """What W&B shows of a whole sweep: tables by name, and the files of figures, of which suspects.png is drawn now.

    The tables are the estimates (the first TABLE_ROWS), those whose chains are suspect or diverged, and what
    clustering wrote; those that are not there are left out.
    """
    from rllc.report import suspects

    found = suspects.found(sweep)
    tables: dict[str, list[dict[str, Any]]] = {
        "estimates": _estimates(sweep / "estimates.parquet"),
        "suspects": suspects.table(found),
    }
    for name in ("labels", "scores", "agreement", "types"):
        tables[name] = numbers(csv_tables.read(sweep / "clusters" / f"{name}.csv"))
    figures = [
        *sorted((sweep / "report").glob("*.png")),
        *suspects.draw(sweep, found, sweep / "wandb" / "suspects.png"),
    ]
    return {name: table for name, table in tables.items() if table}, figures


def numbers(table: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Turn the columns that hold nothing but numbers into numbers, None where a field is empty."""
    turned: list[dict[str, Any]] = [dict(row) for row in table]
    for name in table[0] if table else ():
        try:
            column = [float(row[name]) if row[name] else None for row in table]
        except ValueError:
            continue
        for row, value in zip(turned, column, strict=True):
            row[name] = value
    return turned


def _estimates(file: Path) -> list[dict[str, Any]]:
    from pyarrow import parquet

    if not file.exists():
        return []
    with parquet.ParquetFile(file) as content:
        names = [name for name in gather.LINE if name in content.schema_arrow.names]
        batches = content.iter_batches(TABLE_ROWS, columns=names)
        return list(next((batch.select(names).to_pylist() for batch in batches), []))


def _health(estimates: Path) -> str:
    from pyarrow import parquet

    table = parquet.read_table(estimates)
    kept = table.select(["metric", "health"]).to_pylist() if table.num_rows else []
    count = Counter(row["health"] for row in kept if row["metric"] == "llc")
    return ", ".join(f"{count[state]} {state}" for state in HEALTH) + " of the λ̂"


def _inside_null(scores: Path) -> set[tuple[str, ...]]:
    """Which clusterings have a silhouette that is not above the 95 % quantile of their null."""
    return {
        tuple(row[name] for name in ("run", "scope", "method", "scaling", "k"))
        for row in csv_tables.read(scores)
        if row["score"] == "silhouette" and not float(row["value"]) > float(row["null_q95"])
    }


def _agreement(row: dict[str, str], inside: set[tuple[str, ...]]) -> str:
    place = tuple(row[name] for name in ("run", "scope", "method", "scaling", "k"))
    what = f"{row['run']} {row['scope']}: {row['method']}/{row['scaling']}, k {row['k']}, against head types: "
    if row["ari"] == "nan":
        return f"{what}no agreement to speak of ({row['reason']})"
    numbers = f"ARI {float(row['ari']):.2f}, AMI {float(row['ami']):.2f}, p {float(row['p']):.3g}"
    left_out = f" ({row['reason']})" if row["reason"] else ""
    weak = "; its silhouette is within the null, no evidence of groups" if place in inside else ""
    return f"{what}{numbers}{left_out}{weak}"

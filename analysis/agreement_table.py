"""The agreement of every clustering with the head types, as a Markdown table: one line a method, one column a scaling.

python analysis/agreement_table.py sweeps/demo [run]
"""

import sys
from pathlib import Path

from rllc import csv_tables


def main(folder: Path, run: str | None) -> None:
    rows = csv_tables.read(folder / "clusters" / "agreement.csv")
    run = run or rows[0]["run"]
    for scope in dict.fromkeys(row["scope"] for row in rows if row["run"] == run):
        for k in dict.fromkeys(row["k"] for row in rows if (row["run"], row["scope"]) == (run, scope)):
            cells = {
                (row["method"], row["scaling"]): f"{float(row['ari']):.2f} (p {float(row['p']):.2f})"
                for row in rows
                if (row["run"], row["scope"], row["k"]) == (run, scope, k)
            }
            scalings = list(dict.fromkeys(scaling for _, scaling in cells))
            print(f"\n{run} {scope}, k {k}: ARI\n\n| | {' | '.join(scalings)} |\n|---|{'---|' * len(scalings)}")
            for method in dict.fromkeys(method for method, _ in cells):
                print(f"| {method} | {' | '.join(cells.get((method, scaling), '–') for scaling in scalings)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)

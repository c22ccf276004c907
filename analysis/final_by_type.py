"""λ̂ of each head at the last checkpoint, grouped by what the head does.

python analysis/final_by_type.py sweeps/demo [figure.png]
"""

import csv
import sys
from pathlib import Path

import matplotlib.pyplot as plt

import rllc


def main(folder: Path, figure: Path) -> None:
    with (folder / "clusters" / "types.csv").open() as file:
        types = {(row["run"], row["part"]): row["type"] for row in csv.DictReader(file)}
    curves = rllc.load(folder).trajectories()
    kinds = sorted(set(types.values()))
    datasets = curves[0].datasets
    fig, panels = plt.subplots(1, len(datasets), figsize=(5 * len(datasets), 3.6), sharey=True, squeeze=False)
    for d, axes in enumerate(panels[0]):
        for marker, curve in zip("osD^v", curves, strict=False):
            for p, part in enumerate(curve.parts):
                kind = kinds.index(types[curve.run, part])
                place = kind + 0.6 * (p / len(curve.parts) - 0.5)
                value, error = curve.value_PDT[p, d, -1], curve.error_PDT[p, d, -1]
                axes.errorbar(place, value, error, fmt=marker, color=f"C{kind}", ms=4)
                axes.annotate(part, (place, value), fontsize=6, xytext=(3, 3), textcoords="offset points")
        axes.set_xticks(range(len(kinds)), kinds)
        axes.set_title(f"{datasets[d]}, step {curves[0].steps[-1]}")
    panels[0, 0].set_ylabel("λ̂ ± standard error (nats)")
    fig.tight_layout()
    fig.savefig(figure, dpi=150)
    print(figure)


if __name__ == "__main__":
    sweep = Path(sys.argv[1])
    main(sweep, Path(sys.argv[2]) if len(sys.argv) > 2 else sweep / "final_by_type.png")

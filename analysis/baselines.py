"""λ̂ of every head with the text's own labels, and with those of a baseline model, side by side.

python analysis/baselines.py sweeps/labels
"""

import drawing
from pyarrow import parquet

from rllc.report import looks, style


def main() -> None:
    found = drawing.read()
    table = parquet.read_table(found.sweep / "estimates.parquet", columns=["dataset", "metric", "loss"]).to_pylist()
    loss = {row["dataset"]: row["loss"] for row in table if row["metric"] == "llc"}
    if len({name for name in loss.values() if name}) == 0:
        raise drawing.lacks("dataset labelled by another model", "give one data.NAME.labels, see docs/modules.md")
    for run, curves in found.curves.items():
        look_of = looks.of_parts(curves, found.groups)
        with style.settings():
            figure, panels = drawing.panels(len(curves.datasets), f"Labels of the text and of a baseline · run {run}")
            for d, axes in enumerate(panels):
                dataset = curves.datasets[d]
                drawing.lines(axes, curves, d, look_of, found.spans(run))
                axes.set_title(f"{dataset} · {loss.get(dataset) or 'own labels'}")
                axes.set_ylabel(found.symbol)
            drawing.save(figure, run)


if __name__ == "__main__":
    main()

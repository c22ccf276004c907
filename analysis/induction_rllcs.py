"""λ̂ of the induction heads on each dataset over training, all others grey.

python analysis/induction_rllcs.py sweeps/demo
"""

import drawing

from rllc.report import style


def main() -> None:
    found = drawing.read()
    for run, curves in found.curves.items():
        heads = drawing.heads_of(found, run, ["induction"])
        if not heads:
            raise drawing.lacks(
                f"induction heads in run {run}", "their type needs grid.metrics prefix and a clustering"
            )
        with style.settings():
            figure, panels = drawing.panels(len(curves.datasets), f"Induction heads · run {run}")
            for d, axes in enumerate(panels):
                drawing.lines(axes, curves, d, heads, found.spans(run))
                axes.set_title(curves.datasets[d])
                axes.set_ylabel(found.symbol)
            drawing.save(figure, run)


if __name__ == "__main__":
    main()

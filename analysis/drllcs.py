"""λ̂ of the whole model on each dataset over training (the data-refined coefficient).

python analysis/drllcs.py sweeps/whole
"""

import drawing
import numpy as np

from rllc.measured import WHOLE
from rllc.report import looks, style


def main() -> None:
    found = drawing.read()
    for run, curves in found.curves.items():
        if found.metric != "llc" or WHOLE not in curves.parts:
            raise drawing.lacks('λ̂ of the whole model ("*")', "sweep it with 'grid.parts=[heads,\"*\"]'")
        steps_T, p = np.array(curves.steps, dtype=np.float64), curves.parts.index(WHOLE)
        with style.settings():
            figure, (axes,) = drawing.panels(1, f"Data-refined LLC of the whole model · run {run}")
            for d, dataset in enumerate(curves.datasets):
                style.curve(axes, steps_T, curves.value_PDT[p, d], curves.half_PDT[p, d], looks.look(d), label=dataset)
            style.step_axis(axes, curves.steps)
            style.shade(axes, found.spans(run))
            axes.set_ylabel(found.symbol)
            axes.legend()
            drawing.save(figure, run)


if __name__ == "__main__":
    main()

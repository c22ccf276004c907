"""λ̂ of each head at the last checkpoint with its 95 % interval, a column for each type of head.

python analysis/final_by_type.py sweeps/demo
"""

import drawing
import numpy as np

from rllc.report import looks, style


def main() -> None:
    found = drawing.read()
    for run, curves in found.curves.items():
        types = found.types(run)
        kinds = [kind for kind in (*looks.TYPES, "other") if kind in types.values()]
        if not kinds:
            raise drawing.lacks(
                "types of heads", "add prev_token, current_token and prefix to grid.metrics, and cluster"
            )
        with style.settings():
            figure, panels = drawing.panels(len(curves.datasets), f"λ̂ at step {curves.steps[-1]} by type · run {run}")
            for d, axes in enumerate(panels):
                for n, kind in enumerate(kinds):
                    inside = [p for p, part in enumerate(curves.parts) if types.get(part) == kind]
                    at, look = n + np.linspace(-0.3, 0.3, len(inside)), looks.of_type(kind)
                    value, half = curves.value_PDT[inside, d, -1], curves.half_PDT[inside, d, -1]
                    axes.errorbar(at, value, half, fmt=look.marker, color=look.colour, ms=4, lw=0.9)
                    for x, y, p in zip(at, value, inside, strict=True):
                        axes.annotate(curves.parts[p], (x, y), fontsize=6, xytext=(3, 3), textcoords="offset points")
                axes.set_xticks(range(len(kinds)), kinds)
                axes.set_xlim(-0.6, len(kinds) - 0.4)
                axes.set_title(curves.datasets[d])
                axes.set_ylabel(found.symbol)
            drawing.save(figure, run)


if __name__ == "__main__":
    main()

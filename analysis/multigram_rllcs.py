"""λ̂ of the heads of no named type, where multigrams live, on each dataset; a column for labels of another model.

python analysis/multigram_rllcs.py sweeps/labels
"""

import drawing

from rllc.report import looks, style


def main() -> None:
    found = drawing.read()
    for run, curves in found.curves.items():
        types = found.types(run)
        if not types:
            raise drawing.lacks(
                "types of heads", "add prev_token, current_token and prefix to grid.metrics, and cluster"
            )
        layers = curves.layers()
        with style.settings():
            figure, panels = drawing.panels(len(layers) * len(curves.datasets), f"Multigram heads · run {run}")
            for n, axes in enumerate(panels):
                layer, d = list(layers)[n // len(curves.datasets)], n % len(curves.datasets)
                inside = [curves.parts[p] for p in layers[layer] if types.get(curves.parts[p]) == "other"]
                shown = {part: looks.look(place) for place, part in enumerate(inside)}
                drawing.lines(axes, curves, d, shown, found.spans(run))
                axes.set_title(f"{layer} · {curves.datasets[d]}")
                axes.set_ylabel(found.symbol)
            drawing.save(figure, run)


if __name__ == "__main__":
    main()

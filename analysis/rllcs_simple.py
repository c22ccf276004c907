"""λ̂ of every head on each dataset over training, coloured by its group in the primary clustering.

python analysis/rllcs_simple.py sweeps/demo
"""

import drawing

from rllc.report import looks, style


def main() -> None:
    found = drawing.read()
    if found.groups is None:
        raise drawing.lacks("clusters", "run `rllc cluster`")
    for run, curves in found.curves.items():
        labels = looks.group_labels(run, found.groups)
        layers = curves.layers()
        with style.settings():
            figure, panels = drawing.panels(len(layers) * len(curves.datasets), f"Attention head rLLC · run {run}")
            for n, axes in enumerate(panels):
                layer, d = list(layers)[n // len(curves.datasets)], n % len(curves.datasets)
                inside = {curves.parts[p] for p in layers[layer]}
                shown = {part: looks.look(label) for part, label in labels.items() if part in inside}
                drawing.lines(axes, curves, d, shown, found.spans(run))
                axes.set_title(f"{layer} · {curves.datasets[d]}")
                axes.set_ylabel(found.symbol)
            drawing.save(figure, run)


if __name__ == "__main__":
    main()

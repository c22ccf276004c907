"""λ̂ of every head on each dataset over training, coloured by its group in the primary clustering.

python analysis/rllcs_simple.py sweeps/demo
"""

import drawing

from rllc.report import looks, style


def main() -> None:
    found = drawing.read()
    if found.groups is None:
        raise drawing.lacks("clusters", "run `rllc cluster`")
    for run in found.curves:
        labels = looks.group_labels(run, found.groups)

        def shown(inside: list[str], labels: dict[str, int] = labels) -> dict[str, looks.Look]:
            return {part: looks.look(label) for part, label in labels.items() if part in inside}

        with style.settings():
            drawing.save(drawing.by_layer(found, run, "Attention head rLLC", shown), run)


if __name__ == "__main__":
    main()

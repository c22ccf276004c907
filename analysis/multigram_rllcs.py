"""λ̂ of the heads of no named type, where multigrams live, on each dataset; a column for labels of another model.

python analysis/multigram_rllcs.py sweeps/labels
"""

import drawing

from rllc.report import looks, style


def main() -> None:
    found = drawing.read()
    for run in found.curves:
        types = found.types(run)
        if not types:
            raise drawing.lacks(
                "types of heads", "add prev_token, current_token and prefix to grid.metrics, and cluster"
            )

        def shown(inside: list[str], types: dict[str, str] = types) -> dict[str, looks.Look]:
            return {part: looks.look(n) for n, part in enumerate(part for part in inside if types.get(part) == "other")}

        with style.settings():
            drawing.save(drawing.by_layer(found, run, "Multigram heads", shown), run)


if __name__ == "__main__":
    main()

"""Q-, K- and V-composition of every pair of heads over training, the strongest pairs named.

python analysis/compositions.py sweeps/behaviour
"""

import drawing
import numpy as np

from rllc.report import looks, style

NAMED = 6


def main() -> None:
    found = drawing.read()
    for run in found.runs():
        kinds = {name: drawing.metric(found, f"{name}_composition", run) for name in "qkv"}
        known = {name: of for name, of in kinds.items() if of is not None}
        if not known:
            raise drawing.lacks("composition scores", "sweep with experiment=behaviour")
        with style.settings():
            figure, panels = drawing.panels(len(known), f"Composition · run {run}", columns=3)
            for axes, (name, of) in zip(panels, known.items(), strict=True):
                last = np.nan_to_num(of.value_PDT[:, 0, -1])
                strongest = {of.parts[p]: looks.look(n) for n, p in enumerate(np.argsort(-last)[:NAMED])}
                drawing.lines(axes, of, 0, strongest, found.spans(run))
                axes.set_title(f"{name.upper()}-composition")
                axes.set_ylabel("score (no unit)")
            drawing.save(figure, run)


if __name__ == "__main__":
    main()

"""Behavioural scores over training, with the stages found from λ̂ of the whole model or from the loss.

python analysis/stage_scores.py sweeps/demo
"""

import drawing
import numpy as np

from rllc.report import looks, style

WHOLE = ("icl", "bigram", "ngram_2", "ngram_3", "ngram_4")
HEADS = ("prev_token", "current_token", "first_token", "prefix", "brackets")


def main() -> None:
    found = drawing.read()
    for run in found.runs():
        known = {name: of for name in (*HEADS, *WHOLE) if (of := drawing.metric(found, name, run)) is not None}
        if not known:
            raise drawing.lacks("behavioural scores", "sweep with experiment=behaviour")
        types = found.types(run)
        with style.settings():
            figure, panels = drawing.panels(len(known), f"Scores and stages · run {run}", columns=3, height=2.3,
                                            legend=looks.type_legend([*types], types))  # fmt: skip
            for axes, (name, of) in zip(panels, known.items(), strict=True):
                steps_T, mean_PT = np.array(of.steps, dtype=np.float64), of.averaged()
                for p, part in enumerate(of.parts):
                    look = looks.of_type(types.get(part, "other")) if name in HEADS else looks.look(0)
                    axes.plot(steps_T, mean_PT[p], color=look.colour, linestyle=look.line, lw=1, label=part)
                style.step_axis(axes, of.steps)
                style.shade(axes, found.spans(run))
                axes.set_title(name)
                axes.set_ylabel("score, mean over datasets")
            drawing.save(figure, run)


if __name__ == "__main__":
    main()

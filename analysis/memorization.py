"""Number of memorised n-grams and skip n-grams of each head against its λ̂, at the middle and the last step.

Spearman's correlation over all heads, and within each layer: layers differ in both, which hides or makes one over all.

python analysis/memorization.py sweeps/behaviour
"""

import drawing
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from rllc.report import looks, style


def correlation(x_P: NDArray[np.float64], y_P: NDArray[np.float64]) -> str:
    """Spearman's correlation with its p."""
    if len(x_P) < 3 or not (np.ptp(x_P) > 0 and np.ptp(y_P) > 0):
        return "–"
    found = stats.spearmanr(x_P, y_P)
    return f"{found.statistic:.2f} (p {found.pvalue:.2g})"


def main() -> None:
    found = drawing.read()
    for run, curves in found.curves.items():
        counts = {name: drawing.metric(found, name, run) for name in ("ngrams", "skip_ngrams")}
        known = {name: of for name, of in counts.items() if of is not None}
        if not known:
            raise drawing.lacks("counts of memorised n-grams", "sweep with experiment=behaviour")
        steps = sorted({step for of in known.values() for step in of.steps} & set(curves.steps))
        steps = [steps[len(steps) // 2], steps[-1]] if len(steps) > 1 else steps
        types = found.types(run)
        with style.settings():
            figure, panels = drawing.panels(len(known) * len(steps), f"Memorisation · run {run}",
                                            legend=looks.type_legend([*types], types))  # fmt: skip
            for n, axes in enumerate(panels):
                (name, of), step = list(known.items())[n // len(steps)], steps[n % len(steps)]
                shared = [part for part in curves.parts if part in of.parts]
                x_P, y_P = (
                    each.averaged()[[each.parts.index(part) for part in shared], each.steps.index(step)]
                    for each in (of, curves)
                )
                for part, x, y in zip(shared, x_P, y_P, strict=True):
                    look = looks.of_type(types.get(part, "other"))
                    axes.plot([x], [y], look.marker, color=look.colour)
                    axes.annotate(part, (x, y), xytext=(3, 3), textcoords="offset points", fontsize=6)
                layer_P = np.array([part.partition("H")[0] for part in shared])
                within = [f"{layer} {correlation(x_P[layer_P == layer], y_P[layer_P == layer])}"
                          for layer in dict.fromkeys(layer_P.tolist())]  # fmt: skip
                axes.set_title(f"step {step} · Spearman {correlation(x_P, y_P)}")
                axes.text(0.99, 0.02, "\n".join(["within", *within]), transform=axes.transAxes, ha="right", fontsize=7)
                axes.set_xlabel(f"{name} (count, mean over datasets)")
                axes.set_ylabel(f"{found.symbol}, mean over datasets")
            drawing.save(figure, run)


if __name__ == "__main__":
    main()

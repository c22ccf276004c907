"""Number of memorised n-grams and skip n-grams of each head against its λ̂, at the middle and the last step.

python analysis/memorization.py sweeps/behaviour
"""

import drawing
import numpy as np
from scipy import stats

from rllc.report import looks, style


def main() -> None:
    found = drawing.read()
    for run, curves in found.curves.items():
        counts = {name: drawing.metric(found, name, run) for name in ("ngrams", "skip_ngrams")}
        known = {name: of for name, of in counts.items() if of is not None}
        if not known:
            raise drawing.lacks("counts of memorised n-grams", "sweep with experiment=behaviour")
        steps = sorted({step for of in known.values() for step in of.steps} & set(curves.steps))
        steps = [steps[len(steps) // 2], steps[-1]] if len(steps) > 1 else steps
        with style.settings():
            figure, panels = drawing.panels(len(known) * len(steps), f"Memorisation · run {run}")
            for n, axes in enumerate(panels):
                (name, of), step = list(known.items())[n // len(steps)], steps[n % len(steps)]
                shared = [part for part in curves.parts if part in of.parts]
                x_P = np.array([np.nanmean(of.value_PDT[of.parts.index(p), :, of.steps.index(step)]) for p in shared])
                at = [(curves.parts.index(p), curves.steps.index(step)) for p in shared]
                y_P = np.array([np.nanmean(curves.value_PDT[p, :, t]) for p, t in at])
                for part, x, y in zip(shared, x_P, y_P, strict=True):
                    look = looks.of_type(found.types(run).get(part, "other"))
                    axes.plot([x], [y], look.marker, color=look.colour)
                    axes.annotate(part, (x, y), xytext=(3, 3), textcoords="offset points", fontsize=6)
                rho = stats.spearmanr(x_P, y_P) if np.ptp(x_P) > 0 and np.ptp(y_P) > 0 else None
                said = f" · Spearman {rho.statistic:.2f} (p {rho.pvalue:.2g})" if rho else ""
                axes.set_title(f"step {step}{said}")
                axes.set_xlabel(f"{name} (count, mean over datasets)")
                axes.set_ylabel(f"{found.symbol}, mean over datasets")
            drawing.save(figure, run)


if __name__ == "__main__":
    main()

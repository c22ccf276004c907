"""λ̂ of every head beside what else measures it, each over training on the first dataset, coloured by head type.

python analysis/metric_comparison.py sweeps/appendix_d
"""

import drawing

from rllc.report import looks, style
from rllc.scopes import HEAD

OTHERS = ("hessian_trace", "hessian_xtrace", "fisher_trace", "hessian_rank", "zero_ablation", "mean_ablation",
          "resample_ablation")  # fmt: skip


def main() -> None:
    found = drawing.read()
    for run, curves in found.curves.items():
        known = {name: of for name in OTHERS if (of := drawing.metric(found, name, run)) is not None}
        if not known:
            raise drawing.lacks("other metrics", "sweep with experiment=appendix_d or appendix_e")
        every = {found.symbol: curves, **known}
        types = found.types(run)
        heads = [part for part in curves.parts if HEAD.fullmatch(part)]
        with style.settings():
            figure, panels = drawing.panels(len(every), f"Metrics side by side · run {run}", columns=3, height=2.4,
                                            legend=looks.type_legend(heads, types))  # fmt: skip
            for axes, (name, of) in zip(panels, every.items(), strict=True):
                look_of = {part: looks.of_type(types.get(part, "other")) for part in heads if part in of.parts}
                drawing.lines(axes, of, 0, look_of, found.spans(run))
                axes.set_title(f"{name} · {of.datasets[0]}")
                axes.set_ylabel(name)
            drawing.save(figure, run)


if __name__ == "__main__":
    main()

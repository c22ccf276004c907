"""The resampling-ablation curves of each layer clustered by four methods under three normalisations.

python analysis/ablations_clustering.py sweeps/appendix_e
"""

import drawing
import numpy as np

from rllc import cluster, methods, scaling
from rllc.report import looks, style

METRIC = "resample_ablation"
METHODS = ("kmeans", "dtw_kmeans", "ward", "kshape")
SCALINGS = ("none", "standardize", "minmax")
K = {"L0": 3, "L1": 2}  # types that the paper names in each layer of its model


def main() -> None:
    found = drawing.read()
    for run in found.runs():
        of = drawing.metric(found, METRIC, run)
        if of is None or not np.isfinite(of.value_PDT).all():
            raise drawing.lacks(f"complete {METRIC} curves", "sweep with experiment=appendix_e")
        for layer, inside in of.layers().items():
            parts, steps_T = [of.parts[p] for p in inside], np.array(of.steps, dtype=np.float64)
            value_PDT = scaling.resample(of.steps, of.value_PDT[list(inside)])
            with style.settings():
                figure, panels = drawing.panels(
                    len(METHODS) * len(SCALINGS),
                    f"Clusterings of {METRIC} · {layer} · {of.datasets[0]} · run {run}",
                    columns=3,
                    height=1.8,
                )
                for n, axes in enumerate(panels):
                    method, how = METHODS[n // len(SCALINGS)], SCALINGS[n % len(SCALINGS)]
                    scaled_PDT = scaling.scale(value_PDT, of.error_PDT[list(inside)], how)
                    seen_PDT = scaling.znormalise(value_PDT) if method == "kshape" else scaled_PDT
                    labels = methods.fit(method, seen_PDT.transpose(0, 2, 1), k=min(K.get(layer, 2), len(parts)),
                                         n_init=10, seed=0)  # fmt: skip
                    axes.set_title(f"{method} · {how}" + (f" · {labels}" if isinstance(labels, str) else ""))
                    if not isinstance(labels, str):
                        for p, label in enumerate(cluster.canonical(labels, parts)):
                            axes.plot(steps_T, scaled_PDT[p, 0], color=looks.look(label).colour,
                                      linestyle=looks.look(label).line, lw=1, label=parts[p])  # fmt: skip
                    style.even_axis(axes, of.steps)
                    axes.set_ylabel("scaled effect" if how != "none" else "nats per token")
                drawing.save(figure, f"{run}-{layer}")


if __name__ == "__main__":
    main()

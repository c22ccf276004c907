"""Cost of grouping curves: draws of the chains, the DTW matrix beside tslearn's, and many curves.

python bench/clusters.py [draws] [matrix] [slow] [many [curves]]

CPU seconds of this process where one thread is named, else wall seconds; other work on the machine shows in the latter.
"""

import resource
import sys
import time

import numpy as np
from threadpoolctl import threadpool_limits

from rllc import bootstrap, config, dtw, fits, kmedoids, methods, scopes
from rllc.trajectories import Trajectories

POINTS, DATASETS, CHAINS, GROUPS = 107, 2, 8, 5


def curves(parts: int) -> Trajectories:
    """Five families of rising curves with shifts and sizes of their own, and eight chains about each."""
    rng = np.random.default_rng(0)
    x_T, family_P = np.linspace(0, 1, POINTS), rng.integers(GROUPS, size=parts)
    middle_P1 = (0.15 + 0.15 * family_P + rng.normal(0, 0.02, parts))[:, None]
    shape_PT = 1 / (1 + np.exp(-(x_T - middle_P1) / 0.05)) * rng.uniform(0.8, 1.2, (parts, 1))
    shape_PT += 0.5 * (family_P % 2)[:, None] * np.exp(-(((x_T - 0.6) / 0.1) ** 2))
    chain_PDTC = shape_PT[:, None, :, None] + 0.2 * rng.standard_normal((parts, DATASETS, POINTS, CHAINS))
    names = tuple(f"L{p // 12}H{p % 12}" for p in range(parts)), ("code", "mix"), tuple(range(0, 100 * POINTS, 100))
    error_PDT = chain_PDTC.std(axis=3, ddof=1) / np.sqrt(CHAINS)
    return Trajectories("bench", "llc", *names, chain_PDTC.mean(axis=3), error_PDT, (), chain_PDTC)


def options(draws: int) -> config.Cluster:
    return config.Cluster(
        methods=["kmeans"], scalings=["standardize"], primary=config.Primary("kmeans", "standardize"), k=None,
        k_range=[2, 3, 4, 5], per_layer=False, logx=False, fill="none", n_init=10, seed=0, null_draws=1, draws=draws,
    )  # fmt: skip


def drawn(ways: tuple[config.Method, ...], draws: int) -> None:
    """144 heads, one scaling, k from 2 to 5: the estimate and all of its draws."""
    given = curves(144)
    began = time.perf_counter()
    (scope,) = scopes.cut(given, options(draws))
    total = time.perf_counter() - began
    for method in ways:
        began, cpu = time.perf_counter(), time.process_time()
        with threadpool_limits(1):  # as the stage does
            fits.fits(
                scope, scope.value_PDT, scope.draw_BPDT - scope.value_PDT, (method, "standardize"), options(draws)
            )
        spent = time.perf_counter() - began
        total += spent
        print(f"144 heads, {draws} draws, {method}: {spent:.1f} s wall, {time.process_time() - cpu:.1f} s of CPU")
    print(f"144 heads, {draws} draws, {', '.join(ways)} together: {total:.1f} s wall on one core")


def matrix(parts: int = 1000) -> None:
    """The banded DTW matrix, with one thread each, the two interleaved."""
    series_PTD = np.ascontiguousarray(curves(parts).value_PDT.transpose(0, 2, 1))
    from tslearn.metrics import cdist_dtw

    radius = dtw.band(POINTS)
    cdist_dtw(series_PTD[:4], sakoe_chiba_radius=radius)  # compiled before it is timed
    seconds: dict[str, list[float]] = {"rllc": [], "tslearn": []}
    for _ in range(3):
        began = time.process_time()
        own_PP = dtw.distances(series_PTD)
        seconds["rllc"].append(time.process_time() - began)
        began = time.process_time()
        other_PP = cdist_dtw(series_PTD, sakoe_chiba_radius=radius, n_jobs=1)
        seconds["tslearn"].append(time.process_time() - began)
    ratios = [other / own for own, other in zip(seconds["rllc"], seconds["tslearn"], strict=True)]
    print(f"DTW matrix of {parts}: rllc {min(seconds['rllc']):.1f} s, tslearn {min(seconds['tslearn']):.1f} s of CPU, "
          f"ratio {', '.join(f'{ratio:.2f}' for ratio in ratios)}; they differ by "
          f"{np.abs(own_PP - other_PP).max():.1e} at most")  # fmt: skip


def many(parts: int = 10_000) -> None:
    """Many curves by k-means, and by DTW k-medoids on one matrix."""
    series_PTD = np.ascontiguousarray(curves(parts).value_PDT.transpose(0, 2, 1))
    steps = {
        "k-means, 10 starts": lambda: methods.fit("kmeans", series_PTD, k=GROUPS, n_init=10, seed=0),
        "Euclidean distances, for the silhouette": lambda: len(methods.distances("kmeans", series_PTD)),
        "DTW matrix": lambda: dtw.distances(series_PTD),
    }
    for name, step in steps.items():
        began, cpu = time.perf_counter(), time.process_time()
        found = step()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{parts} curves, {name}: {time.perf_counter() - began:.0f} s wall, {time.process_time() - cpu:.0f} s of "
              f"CPU, {peak:.1f} GiB at most")  # fmt: skip
    began = time.process_time()
    kmedoids.fit(found, GROUPS)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{parts} curves, k-medoids on it: {time.process_time() - began:.0f} s of CPU, {peak:.1f} GiB at most")


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["draws", "matrix"]
    assert bootstrap.how(curves(2)) == "chains"
    if "draws" in wanted:
        drawn(("kmeans", "ward", "kmedoids"), 200)
    if "slow" in wanted:
        drawn(("kshape", "dtw_kmeans"), 20)
    if "matrix" in wanted:
        matrix()
    if "many" in wanted:
        many(int(wanted[-1]) if wanted[-1].isdigit() else 10_000)

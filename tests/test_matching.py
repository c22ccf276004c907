from dataclasses import replace

import numpy as np
import planted
import pytest

from rllc import cluster, matching
from rllc.cluster import Choice, Labels
from rllc.config import Cluster, Primary
from rllc.trajectories import Trajectories

OPTIONS = Cluster(
    **{"methods": ["kmeans"], "scalings": ["none"], "primary": Primary("kmeans", "none")},
    **{"k": None, "k_range": [3], "per_layer": True, "logx": False, "fill": "none"},
    **{"n_init": 10, "seed": 0, "null_draws": 1, "draws": 0},
)


def run(name: str, truth_P: np.ndarray, every: int = 1) -> tuple[Trajectories, Labels]:
    rng = np.random.default_rng(len(name))
    shapes = np.stack([planted.SHAPES_GT, 0.7 * planted.SHAPES_GT], axis=1)
    value_PDT = (shapes[truth_P] + 0.02 * rng.normal(size=(len(truth_P), 2, 24)))[..., ::every]
    parts = tuple(f"L0H{p}" for p in range(len(truth_P)))
    steps = tuple(range(0, 240, 10 * every))
    curves = Trajectories(name, "llc", parts, ("a", "b"), steps, value_PDT, 0 * value_PDT)
    label_P = cluster.canonical(truth_P, parts)
    return curves, Labels("L0", "kmeans", "none", 3, 0, parts, label_P, {})


def matched(*runs: tuple[Trajectories, Labels]):
    return matching.between(
        [curves for curves, _ in runs],
        {(curves.run, "L0"): [labels] for curves, labels in runs},
        {(curves.run, "L0"): Choice("L0", 3, "given") for curves, _ in runs},
        OPTIONS,
    )


@pytest.mark.parametrize("every", [1, 2])
def test_groups_of_the_same_shape_are_matched_across_runs(every):
    one_P, other_P = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2]), np.array([2, 1, 2, 2, 0, 1, 2, 2, 0])
    (one, labels), (two, others) = run("one", one_P), run("other", other_P, every)
    matches, transfers = matched((one, labels), (two, others))
    shape_of = {0: 0, 1: 1, 2: 2}, {0: 2, 1: 1, 2: 0}  # label, by size and first part, to shape
    for match in matches:
        assert shape_of[0][match.groups[0]] == shape_of[1][match.groups[1]]
        assert match.distance < (0.05 if every == 1 else 0.2)
        assert match.sizes == (int(np.sum(one_P == shape_of[0][match.groups[0]])),
                               int(np.sum(other_P == shape_of[1][match.groups[1]])))  # fmt: skip
    assert len(matches) == 3
    assert [(t.source, t.target, t.ari) for t in transfers] == [("one", "other", 1), ("other", "one", 1)]
    assert all(t.p < 0.01 for t in transfers)


def test_groups_of_another_kind_do_not_transfer():
    one, labels = run("one", np.array([0, 0, 0, 1, 1, 1, 2, 2, 2]))
    two, others = run("two", np.array([0, 0, 0, 1, 1, 1, 2, 2, 2]))
    _, transfers = matched((one, labels), (two, replace(others, label_P=(0, 1, 2, 0, 1, 2, 0, 1, 2))))
    assert transfers[0].ari < 0
    assert transfers[0].p > 0.5


def test_runs_on_other_datasets_are_not_compared():
    one, labels = run("one", np.array([0, 1, 2, 2]))
    two, others = run("two", np.array([0, 1, 2, 2]))
    assert matched((one, labels), (replace(two, datasets=("a", "c")), others)) == ([], [])

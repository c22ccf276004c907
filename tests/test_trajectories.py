import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rllc import trajectories
from rllc.mistake import Mistake

HEADER = "run,metric,part,dataset,step,seed,value,error"


def table(folder: Path, lines: list[str], header: str = HEADER) -> Path:
    path = folder / "curves.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_arrays_are_in_natural_order_whatever_the_order_of_rows(tmp_path):
    cells = [(p, d, t) for p in ("L0H9", "L0H10", "L1H0") for d in ("code", "prose") for t in (0, 20, 100)]
    lines = [f"r,llc,{p},{d},{t},0,{i},{i / 100}" for i, (p, d, t) in enumerate(cells)]
    np.random.default_rng(0).shuffle(lines)
    (curves,) = trajectories.read_table(table(tmp_path, lines))
    assert (curves.parts, curves.datasets, curves.steps) == (("L0H9", "L0H10", "L1H0"), ("code", "prose"), (0, 20, 100))
    assert np.array_equal(curves.value_PDT, np.arange(18.0).reshape(3, 2, 3))
    assert np.allclose(curves.error_PDT, np.arange(18.0).reshape(3, 2, 3) / 100, rtol=1e-15)
    assert curves.filled == ()


def test_seeds_are_averaged_and_their_errors_combined(tmp_path):
    lines = ["r,llc,a,d,0,0,1,3", "r,llc,a,d,0,1,2,4", "r,llc,a,d,1,0,5,0.5"]
    (curves,) = trajectories.read_table(table(tmp_path, lines))
    assert curves.value_PDT.tolist() == [[[1.5, 5.0]]]
    assert curves.error_PDT.tolist() == [[[2.5, 0.5]]]  # √(3² + 4²)/2


def test_one_trajectories_for_each_run_and_one_metric(tmp_path):
    lines = [f"r{r},{m},a,d,{t},0,{r + t},0" for r in (10, 9) for m in ("llc", "prefix") for t in (0, 1)]
    path = table(tmp_path, lines)
    assert [(curves.run, curves.metric) for curves in trajectories.read_table(path)] == [("r9", "llc"), ("r10", "llc")]
    assert trajectories.read_table(path, metric="prefix")[0].metric == "prefix"
    with pytest.raises(Mistake, match=r"metric: 'prev_token' is not one of: llc, prefix"):
        trajectories.read_table(path, metric="prev_token")


def test_a_sweep_is_read_from_its_estimates(tmp_path):
    with pytest.raises(Mistake, match="gather the sweep first"):
        trajectories.read(tmp_path)
    columns = {
        **{"run": ["r"] * 2, "metric": ["llc"] * 2, "part": ["L0H0"] * 2, "dataset": ["pile"] * 2, "seed": [0, 0]},
        **{"step": [0, 10], "value": [0.5, 1.5], "error": [0.1, 0.2], "health": ["ok", "suspect"]},
    }
    pq.write_table(pa.table(columns), tmp_path / "estimates.parquet")
    (curves,) = trajectories.read(tmp_path)
    assert curves.value_PDT.tolist() == [[[0.5, 1.5]]]
    with pytest.raises(Mistake, match="'prefix' is not one of: llc"):
        trajectories.read(tmp_path, metric="prefix")


def test_holes_are_named_the_first_ten_and_counted(tmp_path):
    lines = [f"r,llc,a,d,{t},0,{'nan' if t == 2 else 1},0" for t in range(13)] + ["r,llc,b,d,0,0,1,0"]
    with pytest.raises(
        Mistake, match=r"13 cells have no llc in run r: a/d/2 \(no number\), b/d/1 \(missing\)"
    ) as caught:
        trajectories.read_table(table(tmp_path, lines))
    assert "b/d/9 (missing), …; measure them, or set cluster.fill=interpolate" in str(caught.value)
    assert "b/d/10" not in str(caught.value)


def test_one_diverged_seed_makes_the_cell_a_hole(tmp_path):
    lines = ["r,llc,a,d,0,0,1,0", "r,llc,a,d,0,1,nan,nan", "r,llc,a,d,1,0,5,0"]
    with pytest.raises(Mistake, match=r"1 cell has no llc in run r: a/d/0 \(no number\)"):
        trajectories.read_table(table(tmp_path, lines))


def test_interpolation_is_exact_on_functions_linear_in_log_step(tmp_path):
    def curve(t: int) -> float:
        return 2 - 3 * math.log(t + 1)

    steps = [0, 1, 5, 40, 300, 1000]
    lines = [f"r,llc,a,d,{t},0,{curve(t) if t not in (5, 40, 300) else 'nan'},0.3" for t in steps if t != 40]
    lines += [f"r,llc,b,d,{t},0,{curve(t)},0.1" for t in steps]
    (curves,) = trajectories.read_table(table(tmp_path, lines), fill="interpolate")
    assert np.allclose(curves.value_PDT[0, 0], [curve(t) for t in steps], atol=1e-12)
    assert curves.filled == ("a/d/5", "a/d/40", "a/d/300")
    weight = (math.log(6) - math.log(2)) / (math.log(1001) - math.log(2))
    assert curves.error_PDT[0, 0, 2] == pytest.approx(0.3 * math.hypot(1 - weight, weight), rel=1e-12)


@pytest.mark.parametrize("end", [0, 3])
def test_the_ends_of_a_curve_are_never_filled(tmp_path, end):
    lines = [f"r,llc,a,d,{t},0,{'nan' if t in (end, 1) else 1},0" for t in range(4)]
    with pytest.raises(Mistake, match=rf"a/d/{end} .*interpolation fills only gaps between two known steps"):
        trajectories.read_table(table(tmp_path, lines), fill="interpolate")


def test_cells_that_appear_twice_are_refused_if_they_disagree(tmp_path):
    header = "part,dataset,step,value"
    lines = ["a,d,0,1", "a,d,1,2", "a,d,1,2"]
    (curves,) = trajectories.read_table(table(tmp_path, lines, header))
    assert curves.value_PDT.tolist() == [[[1.0, 2.0]]]
    assert (curves.run, curves.metric) == ("curves", "value")
    with pytest.raises(
        Mistake, match=r"line 3 and line 5 both give value of a/d/1 in run curves, as 2 and 3; keep one"
    ):
        trajectories.read_table(table(tmp_path, [*lines, "a,d,1,3"], header))


def test_a_curve_needs_two_steps(tmp_path):
    with pytest.raises(Mistake, match="run r has only step 7, but a curve needs two steps or more"):
        trajectories.read_table(table(tmp_path, ["r,llc,a,d,7,0,1,0", "r,llc,b,d,7,0,1,0"]))


def test_tidy_rows_read_back_as_the_same_curves(tmp_path):
    lines = [f"r,llc,{p},{d},{t},0,{0.1 * i},0.5" for i, p in enumerate("ab") for d in "xyz" for t in (0, 4)]
    (curves,) = trajectories.read_table(table(tmp_path, lines))
    rows = list(trajectories.tidy([curves]))
    assert len(rows) == 12
    assert rows[0] == ("r", "llc", "a", "x", 0, 0.0, 0.5)
    again = table(tmp_path, [",".join(map(str, row)) for row in rows], ",".join(trajectories.TIDY))
    assert np.array_equal(trajectories.read_table(again)[0].value_PDT, curves.value_PDT)


def chained(folder: Path, chains: dict[tuple[str, int], list[list[float]]]) -> Path:
    cells = [(part, step, seed, means) for (part, step), seeds in chains.items() for seed, means in enumerate(seeds)]
    columns = {
        "part": [cell[0] for cell in cells], "dataset": ["d"] * len(cells), "step": [cell[1] for cell in cells],
        "seed": [cell[2] for cell in cells], "value": [float(np.mean(cell[3])) for cell in cells],
        "chains": [cell[3] for cell in cells],
    }  # fmt: skip
    pq.write_table(pa.table(columns), folder / "curves.parquet")
    return folder / "curves.parquet"


def test_chains_of_all_seeds_stand_side_by_side_and_their_mean_is_the_value(tmp_path):
    cells = {(part, step): [[1.0, 2.0 + step], [3.0, 5.0]] for part in "ab" for step in (0, 1)}
    (curves,) = trajectories.read_table(chained(tmp_path, cells))
    assert curves.chain_PDTC.shape == (2, 1, 2, 4)
    assert curves.chain_PDTC[0, 0, 1].tolist() == [1, 3, 3, 5]
    assert np.allclose(curves.chain_PDTC.mean(axis=3), curves.value_PDT)


@pytest.mark.parametrize("odd", [[[1.0, 2.0, 3.0]], [[1.0]], [[1.0, math.nan]]])
def test_chains_that_do_not_fit_together_are_not_given(tmp_path, odd):
    cells = {("a", step): [[1.0, 2.0]] for step in (0, 1)} | {("b", 0): [[1.0, 2.0]], ("b", 1): odd}
    path = chained(tmp_path, cells)
    if not np.isfinite(odd).all():
        with pytest.raises(Mistake, match="no number"):
            trajectories.read_table(path)
    else:
        (curves,) = trajectories.read_table(path)
        assert curves.chain_PDTC is None

import csv
import dataclasses
import io
import json
import math
import subprocess
import sys

import pytest
import torch

from rllc.report import style
from rllc.validation import cases, curvature, figure, potentials, rows, setting, table

ROWS = torch.zeros(1, 1, dtype=torch.int64)
SMALL = [case for case in cases.every() if case.family != "large"]


def loss(potential, w_D):
    pieces = w_D.split([array.numel() for array in potential.start])
    live = [piece.view(1, *array.shape) for piece, array in zip(pieces, potential.start, strict=True)]
    return potential.losses(live, ROWS)[0, 0]


def start(potential):
    return torch.cat([array.reshape(-1) for array in potential.start])


def hessian(potential, w_D=None):
    return torch.autograd.functional.hessian(
        lambda w_D: loss(potential, w_D), start(potential) if w_D is None else w_D
    )  # fmt: skip


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_the_start_is_a_minimum_and_has_no_excess(case):
    potential = case.build()
    w_D = start(potential).requires_grad_()
    value = loss(potential, w_D)
    value.backward()
    assert abs(float(value.detach()) - float(potential.reference(ROWS))) < 1e-25
    assert w_D.grad.norm() < 1e-12


@pytest.mark.parametrize("case", [case for case in SMALL if len(start(case.build())) < 300], ids=lambda case: case.name)
def test_the_coefficient_lies_between_half_the_rank_of_the_hessian_and_half_the_weights(case):
    rank = int(torch.linalg.matrix_rank(hessian(case.build()), rtol=1e-9, hermitian=True))
    size = len(start(case.build()))
    assert rank / 2 <= case.exact.value <= size / 2
    if case.family in ("regular", "frozen factor"):
        assert case.exact.value * 2 == rank


def test_a_product_is_the_regression_of_its_map_on_white_inputs():
    potential = potentials.product((5, 4, 6, 3), (2, 2, 2), seed=3)
    x_NI = math.sqrt(5) * torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(0)).double())[0]
    generator = torch.Generator().manual_seed(1)
    moved = [array + 0.3 * torch.randn(array.shape, generator=generator) for array in potential.true]
    y_NO, true_NO = x_NI, x_NI
    for matrix, other in zip(moved, potential.true, strict=True):
        y_NO, true_NO = y_NO @ matrix.T, true_NO @ other.T
    expected = (y_NO - true_NO).square().sum(1).mean() / 2
    found = potential.losses([matrix[None] for matrix in moved], ROWS)[0, 0]
    assert float(found) == pytest.approx(float(expected), rel=1e-12)


def test_each_chain_and_row_has_its_own_loss():
    potential = potentials.Crossing([1, 2], 3)
    live = [torch.tensor([[1.0, 2.0, 0.5], [0.0, 1.0, 1.0]]), torch.tensor([[1.0, 1.0, 2.0], [5.0, 1.0, 2.0]])]
    found = potential.losses(live, torch.zeros(2, 4, dtype=torch.int64))
    assert found.tolist() == [[1 + 4 + 4.0] * 4, [0 + 1 + 16.0] * 4]


@pytest.mark.parametrize("ranks", [(3, 3, 3), (2, 2, 2), (0, 0, 0)])
def test_true_matrices_and_their_product_have_the_rank_asked_for(ranks):
    true = potentials.product((6, 4, 5, 6), ranks, seed=1).true
    whole = torch.linalg.multi_dot(true[::-1])
    assert [int(torch.linalg.matrix_rank(matrix)) for matrix in [*true, whole]] == [*ranks, ranks[0]]


def test_stretching_moves_along_the_zero_set():
    plain, far = potentials.product((6, 4, 5), (2, 2), seed=1), potentials.stretched((6, 4, 5), 2, 5.0, seed=1)
    assert torch.allclose(plain.target, far.target, atol=1e-14)
    assert torch.linalg.svdvals(far.true[0])[0] == pytest.approx(5 * float(torch.linalg.svdvals(plain.true[0])[0]))


def test_a_frozen_factor_stays():
    potential = potentials.product((4, 3, 5), (3, 2), seed=0, moving=(0,))
    assert [array.shape for array in potential.start] == [(3, 4)]
    assert float(potential.losses([potential.true[0][None]], ROWS)) == 0.0


def test_curvature_is_that_of_the_dense_hessian():
    potential = potentials.product((4, 3, 5), (2, 2), seed=0)
    w_CD = start(potential) + 0.1 * torch.randn(3, 27, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    dense = max(float(torch.linalg.matrix_norm(hessian(potential, w_D), 2)) for w_D in w_CD)
    assert 0.98 * dense < curvature.largest(potential, w_CD) <= dense * (1 + 1e-12)
    exact = float(hessian(potential).trace())
    assert curvature.trace(potential) == pytest.approx(exact, rel=0.15)  # 16 probes of 27 weights
    diagonal = potentials.Quadratic(torch.tensor([0.5, 2.0, 0.0]))
    assert curvature.trace(diagonal) == pytest.approx(2.5, rel=1e-6)
    assert curvature.largest(potentials.Crossing([2], 3), torch.zeros(1, 3, dtype=torch.float64)) == 0.0


def row(name, family, exact, value, devinterp=math.nan):
    blank = {field.name: math.nan for field in dataclasses.fields(rows.Row)}
    known = {"weights": 7, "multiplicity": 1, "health": "ok", "note": f"why {name}", "relative": value / exact - 1}
    found = {"name": name, "family": family, "exact": exact, "value": value, "devinterp": devinterp}
    return rows.Row(**{**blank, **known, **found})


TABLE = [
    row("a", "one", 1.0, 1.1, 3.0), row("b", "one", 2.0, 1.9, 2.0), row("c", "one", 3.0, 3.2, 1.0),
    row("d", "two", 1.0, 2.0), row("e", "two", 2.0, 1.0), row("f", "two", 2.0, 3.0), row("g", "lone", 1.0, 1.0),
]  # fmt: skip


def test_order_counts_pairs_that_are_the_wrong_way_round():
    one, two = table.orders(TABLE)
    assert (one.kendall, one.spearman, one.swapped) == pytest.approx((1, 1, 0))
    assert (one.devinterp_kendall, one.devinterp_spearman, one.devinterp_swapped) == pytest.approx((-1, -1, 3))
    assert (two.cases, two.swapped) == (3, 1)  # of e and f, whose λ are equal, neither order is wrong
    assert two.kendall == pytest.approx(0)
    assert math.isnan(two.devinterp_kendall)


def test_the_table_says_all_of_a_row(capsys):
    table.show(TABLE[:3], table.orders(TABLE[:3]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "case a; weights 7; λ 1; m 1; rllc 1.1; off +10.0%; devinterp 3"
    assert lines[3] == "order of one, 3 cases: Kendall 1.00, 0 pairs wrong; devinterp -1.00, 3 wrong"
    assert lines[4:] == ["a: why a", "b: why b", "c: why c"]
    read = list(csv.DictReader(io.StringIO(table.text(TABLE))))
    assert [line["name"] for line in read] == list("abcdefg")
    assert float(read[1]["value"]) == 1.9


def test_the_figure_has_every_row_that_a_logarithmic_axis_can_show():
    made = [dataclasses.replace(line, paper=line.value, count=0.0 if line.name == "a" else 1.0) for line in TABLE]
    with style.settings():
        left, right = figure.draw(made).axes
    points = [[len(line.get_xdata()) for line in axes.lines[:3]] for axes in (left, right)]
    assert points == [[3, 3, 1], [2, 3, 1]]


def test_a_row_is_measured_once_and_again_for_another_setting(tmp_path, monkeypatch):
    measured = []

    def measure(case):
        measured.append(case.name)
        return row(case.name, case.family, 1.0, 1.5)

    monkeypatch.setattr(rows, "measure", measure)
    case = cases.every(quick=True)[0]
    first, again = rows.kept(tmp_path, case), rows.kept(tmp_path, case)
    assert json.dumps(dataclasses.asdict(first)) == json.dumps(dataclasses.asdict(again))  # NaN among them
    rows.kept(tmp_path, dataclasses.replace(case, sampler=dataclasses.replace(case.sampler, draws=7)))
    assert measured == [case.name] * 2
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_names_are_unique_and_families_have_several_values():
    made = cases.every()
    assert len({case.name for case in made}) == len(made)
    for family in {case.family for case in made} - {"rescaled"}:
        assert len({case.exact.value for case in made if case.family == family}) >= 3
    assert 0 < len(cases.every(quick=True)) < len(made) / 4


@pytest.mark.slow
@pytest.mark.parametrize("case", cases.every(quick=True), ids=lambda case: case.name)
def test_a_quick_case_is_estimated_rightly(case, monkeypatch):
    monkeypatch.setattr(rows, "_devinterp", lambda *_: (math.nan,) * 3)
    found = rows.measure(case)
    assert found.stiff == pytest.approx(setting.STEP, rel=0.03)
    inflated = case.expected / (1 - setting.STEP / 2)  # as if all directions were as stiff as the stiffest
    assert case.expected - 3 * found.error < found.value < inflated + 3 * found.error
    assert found.error < 0.06 * found.exact


@pytest.mark.slow
def test_the_verb_makes_its_files_and_resumes(tmp_path):
    words = ["validate", f"root={tmp_path}", "validate.quick=true", "launch.workers=2"]
    command = [sys.executable, "-c", "import sys; from rllc.cli import main; sys.exit(main())", *words]
    first = subprocess.run(command, capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    folder = tmp_path / "validation"
    lines = list(csv.DictReader(io.StringIO((folder / "table.csv").read_text(encoding="utf-8"))))
    assert [line["name"] for line in lines] == [case.name for case in cases.every(quick=True)]
    assert all(abs(float(line["relative"])) < 0.1 for line in lines)
    assert (folder / "figure.png").stat().st_size > 10_000
    assert json.loads((folder / "settings.json").read_text())["step"] == setting.STEP
    stored = {file: file.stat().st_mtime_ns for file in folder.glob("rows/*.json")}
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.stdout == first.stdout
    assert {file: file.stat().st_mtime_ns for file in folder.glob("rows/*.json")} == stored

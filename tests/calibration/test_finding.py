import dataclasses
import math

import numpy as np
import pytest
from ladder import BASE, Law, ladder, measured

from rllc.calibration.finding import step_bias
from rllc.calibration.grid import Setting

ALIKE = [[20 / 3] * 8]  # p = 400 in every direction: a/2 = ε p/4 is 0.05 at ε 5e-4


@pytest.fixture(scope="module")
def found():
    return ladder([5e-4, 1e-3], ALIKE)


def test_the_measured_step_bias_is_the_richardson_difference_of_the_closed_form(found):
    half, full = found.values()
    share = step_bias(full, half)
    value = [
        Law.of(np.diag(ALIKE[0]), dataclasses.replace(BASE, lr=lr, burn_in=9999, draws=1)).value for lr in (5e-4, 1e-3)
    ]
    assert 2 * (1 - value[0] / value[1]) == pytest.approx(0.105, abs=1e-3)
    assert abs(share.value - 2 * (1 - value[0] / value[1])) < 3 * share.error
    assert share.error < 0.04
    assert full.median("bias_step") == pytest.approx(0.1, abs=0.01)


def test_value_noise_and_spread_are_those_of_the_law():
    curvatures = [[1.0] * 8, [20 / 3] * 8, [40.0] * 8]
    finding = measured(Setting(200.0, 30.0, 5e-4), curvatures)
    laws = [Law.of(np.diag(each), finding.sampler).value for each in curvatures]
    assert abs(finding.value - np.mean(laws)) < 3 * finding.error
    assert abs(finding.spread - np.std(laws, ddof=1)) < 3 * max(each.error for each in finding.estimates)
    # sd of a chain's mean: √2 λ̂_i √(τ/S) for each direction, τ = (1 + ρ²)/(1 − ρ²) (facts of the quadratic)
    rho = [1 - 5e-4 * (30 * each[0] + 200) / 2 for each in curvatures]
    tau = [(1 + r**2) / (1 - r**2) for r in rho]
    noise = np.mean([2 * (law / 8) ** 2 * 8 * t for law, t in zip(laws, tau, strict=True)])
    assert finding.noise == pytest.approx(
        noise, rel=4 * math.sqrt(2 / (63 * 2))
    )  # variance of 64 chains; one part rules
    assert finding.signal == pytest.approx(finding.spread / math.sqrt(finding.noise / 1000))


def test_one_part_has_no_spread_and_no_signal(found):
    assert all(math.isnan(finding.spread) and math.isnan(finding.signal) for finding in found.values())


def test_the_spread_of_equal_parts_is_taken_for_noise():
    finding = measured(Setting(200.0, 30.0, 5e-4), [[5.0] * 8] * 2)
    raw = np.std([each.value for each in finding.estimates], ddof=1)
    assert finding.spread**2 == pytest.approx(max(raw**2 - np.mean([each.error**2 for each in finding.estimates]), 0))


@pytest.mark.parametrize(
    ("lr", "curvature", "fault"),
    [
        (1e-3, 20 / 3, ""),
        (2e-3, 20 / 3, "step bias at least 2"),
        (1e-3, 140.0, "unstable: ε p/2 reaches 2.2"),  # 64 chains of 80 steps stay finite in float64
    ],
)
def test_faults(lr, curvature, fault):
    finding = measured(Setting(200.0, 30.0, lr), [[curvature] * 4], relaxations=8.0)
    assert finding.fault(0.12).startswith(fault)
    assert bool(finding.fault(0.12)) == bool(fault)


def test_one_place_that_diverged_is_enough(found):
    (one,) = found[Setting(200.0, 30.0, 5e-4)].estimates
    lost = dataclasses.replace(one, value=math.nan, error=math.nan, health="diverged", stats={})
    finding = dataclasses.replace(found[Setting(200.0, 30.0, 5e-4)], estimates=(*[one] * 20, lost))
    assert finding.fault(0.12) == "1 of 21 diverged"
    assert all(math.isnan(number) for number in (finding.value, finding.error, finding.most("stein")))
    assert math.isnan(
        step_bias(found[Setting(200.0, 30.0, 1e-3)], dataclasses.replace(finding, estimates=(lost,))).value
    )


def test_a_tenth_of_the_places_may_be_suspect(found):
    (one,) = found[Setting(200.0, 30.0, 5e-4)].estimates
    doubtful = dataclasses.replace(one, health="suspect", reason="chains disagree")
    for doubts, fault in ((1, ""), (2, "2 of 10 suspect: chains disagree")):
        many = dataclasses.replace(
            found[Setting(200.0, 30.0, 5e-4)], estimates=(*[one] * (10 - doubts), *[doubtful] * doubts)
        )
        assert many.fault(0.12) == fault

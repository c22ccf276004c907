import dataclasses
import math

import numpy as np
import pytest
from ladder import BASE, ladder, measured

from rllc.calibration import choice
from rllc.calibration.choice import Judgement
from rllc.calibration.grid import Setting

PAIR = (200.0, 30.0)
ALIKE = [[20 / 3] * 8, [2.0] * 8]
HIDDEN = [[100.0] + [1e-3] * 100]  # one stiff direction makes λ̂, a hundred flat ones the chains' mean curvature


def test_the_plateau_ends_where_the_closed_form_says():
    found = ladder([5e-4, 1e-3, 2e-3], ALIKE[:1])  # step bias ε p/4: 5 %, 10 %, 20 %
    judged = choice.judge(found, {Setting(*PAIR, 8e-3): "too stiff"}, {}, 0.12)
    assert [setting.lr for setting in judged] == [5e-4, 1e-3, 2e-3, 8e-3]
    assert [bool(judgement.fault) for judgement in judged.values()] == [False, False, True, True]
    assert choice.plateaus(judged)[PAIR].setting.lr == 1e-3
    assert choice.plateaus(choice.judge(found, {}, {}, 0.07))[PAIR].setting.lr == 5e-4
    assert choice.plateaus(choice.judge(found, {}, {}, 0.04)) == {}


def test_the_half_step_finds_a_bias_that_the_mean_curvature_hides():
    found = ladder([2.5e-4, 5e-4], HIDDEN, chains=256, relaxations=10.0)
    stiff = found[Setting(*PAIR, 5e-4)]
    assert stiff.fault(0.1) == ""
    judgement = choice.judge(found, {}, {}, 0.1)[Setting(*PAIR, 5e-4)]
    # a/2 = ε p/4 is 0.4 at ε and 0.2 at ε/2: 2 (1 − 0.6/0.8) = 0.5 of the stiff direction's λ̂, which is nearly all
    assert judgement.bias is not None
    assert abs(judgement.bias.value - 0.5) < 3 * judgement.bias.error
    assert judgement.fault.startswith("λ̂(ε) and λ̂(ε/2) disagree: step bias ")


def test_a_failure_below_ends_the_plateau():
    found = ladder([5e-4, 1e-3], ALIKE[:1], chains=4, relaxations=3.0)
    low, high = found.values()
    judged = {low.setting: Judgement(low, None, "diverged"), high.setting: Judgement(high, None, "")}
    assert choice.plateaus(judged) == {}


def test_what_was_dropped_after_short_chains_is_no_half_to_compare_with():
    found = ladder([5e-4, 1e-3], ALIKE[:1], chains=4, relaxations=3.0)
    low, high = found
    judged = choice.judge(found, {}, {low: Judgement(found[low], None, "weak", weak=True)}, 0.12)
    assert judged[low].fault == "weak"
    assert judged[high].bias is None
    assert choice.judge(found, {}, {}, 0.12)[high].bias is not None


@pytest.mark.parametrize(("times", "kept"), [(1.2, True), (1.3, False)])
def test_the_own_pair_is_kept_unless_another_is_clearly_better(times, kept):
    own = measured(Setting(200.0, 30.0, 5e-4), ALIKE, chains=16)
    moved = [dataclasses.replace(each, error=each.error / times) for each in own.estimates]
    values = np.array([each.value for each in own.estimates])
    raw = values.var(ddof=1)
    assert raw > 100 * np.mean([each.error**2 for each in own.estimates])  # so signal goes as 1/error
    other = dataclasses.replace(own, setting=Setting(400.0, 30.0, 5e-4), estimates=tuple(moved))
    found = {finding.setting.pair: finding for finding in (own, other)}
    assert choice.choose(found, BASE) is (own if kept else other)
    assert choice.choose({other.setting.pair: other}, BASE) is other
    assert choice.choose({}, BASE) is None


@pytest.mark.parametrize("error", [0.02, 0.005])
def test_the_chains_that_an_error_takes_give_it(error):
    pilot = measured(Setting(200.0, 30.0, 5e-4), [[6.0] * 8], chains=256, relaxations=20.0)
    sampler = choice.sized(pilot, BASE, error)
    assert (sampler.lr, sampler.draws, sampler.burn_in) == (5e-4, 400, 20)
    chains = sampler.chains
    assert chains > choice.CHAINS
    trial = measured(pilot.setting, [[6.0] * 8], chains=256, relaxations=20.0, seed=1)
    scaled = trial.estimates[0].error * math.sqrt(256 / chains)
    # the spread of 256 chains in pilot and trial: relative error of a standard deviation 1/√(2·255) each
    assert scaled == pytest.approx(error, rel=4 * math.sqrt(2 / 510) + 1 / chains)


def test_a_coarse_error_still_takes_four_chains():
    pilot = measured(Setting(200.0, 30.0, 1e-3), [[6.0] * 8], chains=8)
    assert choice.sized(pilot, BASE, 10.0).chains == 4

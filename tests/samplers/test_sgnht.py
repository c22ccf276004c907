import math

import pytest
import torch

from rllc.samplers import sgld, sgnht
from rllc.task import Sampler

SIZE, H = 500, 20 / 3


def heat(method, variance, friction=5.0):
    """Mean of (nβ H + γ) w², which is 1 when exact, its error over weights, and the state at the end.

    The noise of the gradient is such that lr times that of ∇U has `variance`. Draws begin after 6 times A/h.
    """
    sampler = Sampler(
        lr=1e-3, nbeta=30, gamma=200, chains=4, draws=1, burn_in=0, batch=1, method="sgnht", friction=friction
    )
    sigma = math.sqrt(variance / sampler.lr) / sampler.nbeta
    generator = torch.Generator().manual_seed(0)
    state = method.start(torch.zeros(4, SIZE, dtype=torch.float64))
    total_CD = torch.zeros_like(state[0])
    for t in range(3000):
        xi, noise = torch.empty(2, 4, SIZE, dtype=torch.float64).normal_(generator=generator)
        total_CD += state[0] ** 2 * (t >= 1000)
        state = method.step(state, H * state[0] + sigma * noise, state[0], xi, sampler=sampler, t=t)
    heat_CD = total_CD / 2000 * (sampler.nbeta * H + sampler.gamma)
    return float(heat_CD.mean()), float(heat_CD.std()) / math.sqrt(heat_CD.numel()), state


@pytest.mark.slow
def test_noise_of_the_gradient_is_taken_up_by_the_friction():
    quiet, error, state = heat(sgnht, 0.0)
    assert abs(quiet - 1) < 3 * error < 0.015
    assert abs(state[2]).max() < 1
    noisy, error, state = heat(sgnht, 0.1)
    assert abs(noisy - 1) < 3 * error < 0.015  # 1.05 where the heat of p' alone is kept at 1
    assert (state[2] > 1).all()
    assert heat(sgld, 0.1)[0] > 1.13  # 1/(1 − a/2) = 1.11 from the step, the rest from the noise


def test_the_thermostat_is_one_a_chain():
    sampler = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=2, draws=1, burn_in=0, batch=1, friction=20.0)
    cold_hot = torch.tensor([[0.0] * 6, [2.0] * 6], dtype=torch.float64)
    state = (torch.zeros_like(cold_hot), cold_hot, torch.zeros(2, 1, dtype=torch.float64))
    excess = sgnht.step(state, 0 * cold_hot, 0 * cold_hot, 0 * cold_hot, sampler=sampler, t=100)[2]
    h = math.sqrt(1e-3)
    after = 2 * math.exp(-20 * h)
    assert excess.flatten().tolist() == pytest.approx([-h, h * ((4 + after**2) / 2 - 1)])


def test_the_thermostat_waits_until_the_chain_is_warm():
    sampler = Sampler(lr=1e-2, nbeta=30, gamma=200, chains=1, draws=1, burn_in=0, batch=1, friction=5.0)
    state = sgnht.start(torch.zeros(1, 6))
    for t, moves in ((9, False), (11, True)):  # t h A = 4.5 and 5.5
        after = sgnht.step(state, state[0], state[0], state[0], sampler=sampler, t=t)
        assert bool(after[2].any()) == moves

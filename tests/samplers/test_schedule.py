import dataclasses
import math

import numpy as np
import pytest
import torch

from rllc.samplers import named
from rllc.samplers.schedule import rate, relaxation
from rllc.task import Sampler

SAMPLER = Sampler(lr=3e-4, nbeta=30, gamma=200, chains=1, draws=1, burn_in=0, batch=1)


def test_without_warmup_the_rate_is_constant():
    assert {rate(SAMPLER, t) for t in range(5)} == {3e-4}


@pytest.mark.parametrize("warmup", [1, 3, 7])
def test_the_rate_grows_linearly_and_then_is_exactly_lr(warmup):
    sampler = dataclasses.replace(SAMPLER, warmup=warmup)
    rates = [rate(sampler, t) for t in range(12)]
    assert rates[:warmup] == pytest.approx([3e-4 * (t + 1) / warmup for t in range(warmup)])
    assert set(rates[warmup - 1 :]) == {3e-4}


def test_the_rate_of_a_traced_step_is_the_same():
    jax = pytest.importorskip("jax")
    sampler = dataclasses.replace(SAMPLER, warmup=4)
    traced = jax.jit(lambda t: rate(sampler, t))
    assert [float(traced(t)) for t in range(8)] == pytest.approx([rate(sampler, t) for t in range(8)], rel=1e-6)


@pytest.mark.parametrize(
    "changes",
    [{}, {"method": "rmsprop", "lr": 1e-4}, {"method": "sgnht", "friction": 60.0, "lr": 1e-5}, {"gamma": 20.0}],
)
def test_a_chain_without_loss_and_noise_comes_back_in_the_relaxation_time(changes):
    sampler = dataclasses.replace(SAMPLER, **{"lr": 1e-3, **changes})
    method, still = named(sampler.method), torch.zeros(1, 1, dtype=torch.float64)
    state = method.start(torch.ones(1, 1, dtype=torch.float64))
    aways = []
    for t in range(4 * round(relaxation(sampler))):
        state = method.step(state, still, state[0], still, sampler=sampler, t=t)
        state = (*state[:2], *(0 * excess for excess in state[2:]))  # a thermostat would heat what is at rest
        aways.append(state[0].item())
    a_time = round(relaxation(sampler))
    assert aways[3 * a_time] / aways[2 * a_time] == pytest.approx(np.exp(-1), rel=0.06)


def test_nothing_holds_a_chain_without_localisation():
    assert relaxation(Sampler(1e-3, 30, 0, 1, 9, 0, 1)) == math.inf

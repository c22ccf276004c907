import dataclasses

import pytest

from rllc.samplers.schedule import rate
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

import math

import pytest
import torch

from rllc.samplers import rmsprop
from rllc.task import Sampler

CURVATURE = torch.tensor([0.01, 0.1, 1.0, 10.0, 100.0], dtype=torch.float64)
EXACT = 30 * CURVATURE / (30 * CURVATURE + 200) / 2


def llc(chains, first, steps, **changes):
    """λ̂ of each curvature over the steps from `first` on and its standard error over chains."""
    fields = {"lr": 1e-3, "nbeta": 30, "gamma": 200, "chains": 1, "draws": 1, "burn_in": 0, "batch": 1} | changes
    sampler, generator = Sampler(method="rmsprop", **fields), torch.Generator().manual_seed(0)
    state = rmsprop.start(torch.zeros(chains, 5, dtype=torch.float64))
    total_CH = torch.zeros_like(state[0])
    for t in range(first + steps):
        w_CH = state[0]
        total_CH += (t >= first) * w_CH**2
        xi_CH = torch.empty_like(w_CH).normal_(generator=generator)
        state = rmsprop.step(state, CURVATURE * w_CH, w_CH, xi_CH, sampler=sampler, t=t)
    value_CH = 15 * CURVATURE * total_CH / steps
    return value_CH.mean(0), value_CH.std(0) / math.sqrt(chains)


@pytest.mark.parametrize(("lr", "known"), [(1e-3, [0.0015, 0.0138, 0.0961, 0.3824, 0.7241])])
def test_it_has_the_stationary_values_of_devinterp(lr, known):
    """Figures measured with devinterp 2.0.1, to four digits and its own Monte Carlo error, of 0.2 % here."""
    value, error = llc(2000, 500, 1500, lr=lr)
    allowed = 3 * error + 0.00005 + 0.002 * value
    assert ((value - torch.tensor(known)).abs() < allowed).all()
    assert (error < 0.002 * value).all()


@pytest.mark.slow
def test_small_steps_remove_its_bias_only_where_the_preconditioner_stays():
    settings = {"chains": 1000, "first": 2000, "steps": 3000, "lr": 1e-5}
    frozen, error = llc(**settings, adapt=1000)
    adapting, other = llc(**settings)
    step = 0.5e-5 / 2 * (30 * CURVATURE + 200) / 0.1  # a/2 at the largest preconditioner there is, 1/eps
    assert (error[:4] < 0.03 * EXACT[:4]).all()
    assert ((frozen - EXACT).abs() < 3 * error + step * EXACT).all()
    assert adapting[3] > 1.25 * EXACT[3] + 3 * other[3]

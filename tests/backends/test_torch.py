"""What is torch's own: dtypes, the update in place, and the acceptance ratio."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from quadratic import Quadratic, rotated
from scipy import special

from rllc.backends import stiffness
from rllc.backends import torch as backend
from rllc.samplers import sgld
from rllc.task import Sampler

EIGENVALUES = [0.70, 3.91, 6.63, 9.62, 11.72, 21.82]
PAPER = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=1, draws=200, burn_in=0, batch=1, dtype="float64")


def run(potential, sampler, chains, rows=1, noise=1.0):
    rows_CSB = np.random.default_rng(0).integers(rows, size=(chains, sampler.steps, sampler.batch))
    return backend.run(potential, sampler, rows_CSB, noise_seeds=list(range(chains)), noise=noise)


def test_the_update_in_place_is_the_pure_one(monkeypatch):
    sampler = dataclasses.replace(PAPER, draws=50, warmup=7)
    potential = Quadratic(rotated(EIGENVALUES), np.arange(6.0))
    fused = run(potential, sampler, 3)
    monkeypatch.setattr(backend, "_sgld", sgld.step)
    np.testing.assert_allclose(fused.end_CD, run(potential, sampler, 3).end_CD, rtol=1e-13)


class Bfloat16:
    """½ ‖w − w*‖² around w* = 0.5, computed in bfloat16."""

    def __init__(self, size):
        self.start = [torch.full((size,), 0.5)]

    def losses(self, live, rows_CB):
        away = live[0].bfloat16() - 0.5
        return ((away[:, None] @ away[:, :, None]).squeeze(1) / 2).expand(rows_CB.shape)

    def reference(self, rows_CB):
        return torch.zeros(rows_CB.shape, dtype=torch.bfloat16)


SMALL_STEP = Sampler(lr=1e-4, nbeta=30, gamma=0, chains=4, draws=4000, burn_in=2000, batch=1)
SIZE = 400  # 20 sets of the 20 directions whose λ̂ is 10


@pytest.mark.slow
def test_the_state_is_float32_where_losses_are_in_bfloat16():
    """Off by at most 2⁻⁹ for w − w*, its product and the sum, 0.3 % for the start, 1.5 % by chance (3 errors)."""
    trace = run(Bfloat16(SIZE), SMALL_STEP, 4)
    assert trace.end_CD.dtype == np.float32
    assert SMALL_STEP.nbeta * trace.excess_CS[:, 2000:].mean() == pytest.approx(SIZE / 2, rel=0.025)


def test_weights_in_bfloat16_would_round_the_drift_away():
    state, generator, losses = (torch.full((4, SIZE), 0.5).bfloat16(),), torch.Generator().manual_seed(0), []
    for t in range(SMALL_STEP.steps):
        away_CD = state[0] - 0.5
        losses.append(float(away_CD.float().square().sum(1).mean()) / 2)
        xi_CD = torch.empty_like(away_CD).normal_(generator=generator)
        state = sgld.step(state, away_CD, away_CD, xi_CD, sampler=SMALL_STEP, t=t)
    assert SMALL_STEP.nbeta * np.mean(losses[2000:]) > 2 * SIZE / 2


def test_a_run_reports_the_curvature_and_asks_for_four_gradients_more():
    potential = Quadratic(rotated([2.0] * 10 + [30.0]))
    asked, losses = [], potential.losses
    potential.losses = lambda live, rows: asked.append(1) or losses(live, rows)
    trace = run(potential, dataclasses.replace(PAPER, draws=10), 2)
    assert trace.curvature == pytest.approx(30)
    assert len(asked) == 10 + 1 + stiffness.DIRECTIONS - 1  # two curvatures: the third direction is not there


def test_acceptance_follows_the_closed_form():
    """On a quadratic log α = Σ −(ε p²/8)(w'² − w²), w from the mean of the target; in an endless chain of SGLD that has
    mean 0 and variance v = Σ a³/(2 − a), and is near enough to normal for E min(1, α) = ½ + e^{v/2} Φ(−√v).
    """
    hessian = np.diag(np.tile(EIGENVALUES, 20))
    sampler = dataclasses.replace(PAPER, draws=400)
    trace = run(Quadratic(hessian, np.full(120, 0.1)), sampler, 3)
    assert not trace.accept_CS[:, 0].any()
    precision = sampler.nbeta * np.diag(hessian) + sampler.gamma
    rest = -sampler.nbeta * 0.1 / precision
    paths = [run(Quadratic(hessian, np.full(120, 0.1)), dataclasses.replace(sampler, draws=n), 3) for n in (9, 10)]
    before, after = (path.end_CD - np.linspace(-1, 1, 120) - rest for path in paths)  # w_9 and w_10 about the mean
    log_C = -(sampler.lr * precision**2 / 8 * (after**2 - before**2)).sum(1)
    np.testing.assert_allclose(trace.accept_CS[:, 10], log_C, atol=1e-9)
    a = sampler.lr * precision / 2
    accepted_C = np.minimum(1, np.exp(trace.accept_CS[:, 50:])).mean(1)
    v = (a**3 / (2 - a)).sum()
    assert accepted_C.mean() == pytest.approx(0.5 + math.exp(v / 2) * special.ndtr(-math.sqrt(v)), abs=0.02)


def test_other_samplers_have_no_acceptance_ratio():
    for method in ("rmsprop", "sgnht"):
        sampler = dataclasses.replace(PAPER, method=method, draws=3)
        assert run(Quadratic(rotated(EIGENVALUES)), sampler, 1).accept_CS is None

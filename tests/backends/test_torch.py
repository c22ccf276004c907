import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rllc.backends import torch as backend
from rllc.task import Sampler

sys.path.append(str(Path(__file__).parent))
from quadratic import Law, Quadratic, rotated

EIGENVALUES = [0.70, 3.91, 6.63, 9.62, 11.72, 21.82]
PAPER = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=1, draws=200, burn_in=0, batch=8, dtype="float64")
CHAINS = 2500


def run(potential, sampler, chains=CHAINS, noise=1.0, seed=0):
    pool = np.random.default_rng(seed).integers(1 << 20, size=(chains, sampler.steps, sampler.batch))
    return backend.run(potential, sampler, pool, noise_seeds=[seed * chains + c for c in range(chains)], noise=noise)


def value(trace, sampler):
    chains_C = sampler.nbeta * trace.excess_CS[:, sampler.burn_in :: sampler.every].mean(1)
    return chains_C.mean(), chains_C.std(ddof=1) / np.sqrt(len(chains_C))


SETTINGS = [
    # the figures in the comments were found independently: exact, stationary, finite number of draws
    ({}, 1.4788, 1.7213, 1.7014),
    ({"gamma": 50}, 2.2264, 2.4585, 2.4081),
    ({"nbeta": 100, "gamma": 10, "lr": 5e-4, "draws": 500}, 2.9059, 3.3236, 3.2857),
    ({"lr": 4e-3}, 1.4788, 4.6710, 4.6338),
]


@pytest.mark.parametrize(("changes", "exact", "stationary", "finite"), SETTINGS)
def test_law_gives_the_known_figures(changes, exact, stationary, finite):
    law = Law.of(rotated(EIGENVALUES), Sampler(**{**PAPER.__dict__, **changes}))
    # the eigenvalues are known to two decimals, which near instability moves the third digit of the figures
    assert (law.exact, law.stationary, law.value) == pytest.approx((exact, stationary, finite), rel=1e-3)


@pytest.mark.parametrize(("noise", "batch", "known"), [(4.0, 8, 1.8928), (4.0, 32, 1.7492)])
def test_law_gives_the_known_figures_with_minibatch_noise(noise, batch, known):
    law = Law.of(rotated(EIGENVALUES), Sampler(**{**PAPER.__dict__, "batch": batch}), noise=noise)
    assert law.value == pytest.approx(known, abs=1e-3)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gamma": 50},
        {"nbeta": 100, "gamma": 10, "lr": 5e-4, "draws": 300},
        {"lr": 4e-3},
        {"burn_in": 30, "draws": 40},
        {"every": 3, "draws": 40},
    ],
)
def test_chains_follow_the_quadratic_law(changes):
    sampler = Sampler(**{**PAPER.__dict__, "batch": 1, **changes})
    hessian = rotated(EIGENVALUES)
    got, error = value(run(Quadratic(hessian), sampler), sampler)
    assert abs(got - Law.of(hessian, sampler).value) < 3 * error


def test_slope_at_the_start_relaxes_and_makes_the_value_negative():
    hessian, slope = rotated(EIGENVALUES), np.array([3.0, -2.0, 1.5, 0.5, -1.0, 2.5])
    law = Law.of(hessian, PAPER, slope)
    got, error = value(run(Quadratic(hessian, slope), PAPER), PAPER)
    assert law.exact < 0
    assert abs(law.value - law.stationary) > 10 * error  # the transient matters at this length
    assert abs(got - law.value) < 3 * error


@pytest.mark.parametrize("batch", [8, 32])
def test_minibatch_noise_widens_the_chain_as_the_law_says(batch):
    rng = np.random.default_rng(5)
    noise_NR = rng.standard_normal((4096, 6))
    noise_NR -= noise_NR.mean(0)
    noise_NR = 2 * noise_NR @ np.linalg.inv(np.linalg.cholesky(np.cov(noise_NR.T, bias=True))).T  # covariance 4 I
    sampler = Sampler(**{**PAPER.__dict__, "batch": batch})
    hessian = rotated(EIGENVALUES)
    got, error = value(run(Quadratic(hessian, noise_NR=noise_NR), sampler, chains=3000), sampler)
    law, quiet = Law.of(hessian, sampler, noise=4.0), Law.of(hessian, sampler)
    assert abs(got - law.value) < 3 * error
    assert law.value - quiet.value > 5 * error


def test_stein_sum_counts_the_weights():
    sampler = Sampler(**{**PAPER.__dict__, "burn_in": 60, "draws": 140, "batch": 1})
    trace = run(Quadratic(rotated(EIGENVALUES)), sampler)
    stein_C = (sampler.nbeta * trace.along_CS + sampler.gamma * trace.away_CS)[:, sampler.burn_in :].mean(1)
    law = Law.of(rotated(EIGENVALUES), sampler)
    assert trace.size == 6
    assert law.stein == pytest.approx(6.826, abs=1e-3)
    assert abs(stein_C.mean() - law.stein) < 3 * stein_C.std(ddof=1) / np.sqrt(len(stein_C))


def test_without_noise_the_path_is_the_gradient_flow_written_out():
    hessian, slope = rotated(EIGENVALUES), np.arange(6.0)
    sampler = Sampler(**{**PAPER.__dict__, "draws": 20, "batch": 1})
    trace = run(Quadratic(hessian, slope), sampler, chains=2, noise=0.0)
    away, losses = np.zeros(6), []
    for _ in range(20):
        losses.append(slope @ away + away @ hessian @ away / 2)
        away = away - sampler.lr / 2 * (sampler.nbeta * (slope + hessian @ away) + sampler.gamma * away)
    assert trace.excess_CS == pytest.approx(np.array([losses, losses]), abs=1e-12)


def test_zero_step_never_moves():
    sampler = Sampler(**{**PAPER.__dict__, "lr": 0.0, "draws": 5})
    potential = Quadratic(rotated(EIGENVALUES), np.ones(6), np.random.default_rng(0).standard_normal((64, 6)))
    trace = run(potential, sampler, chains=3)
    assert np.array_equal(trace.end_CD, np.tile(potential.centre, (3, 1)))
    assert not trace.excess_CS.any()


def test_seeds_decide_and_chains_differ():
    sampler = Sampler(**{**PAPER.__dict__, "draws": 5, "batch": 1})
    first, again, other = (run(Quadratic(rotated(EIGENVALUES)), sampler, 2, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.end_CD, again.end_CD)
    assert not np.array_equal(first.end_CD, other.end_CD)
    assert not np.array_equal(first.end_CD[0], first.end_CD[1])


PAIRS = 800


class Product:
    """ℓ = Σ over PAIRS independent pairs of (w1 w2)², each a singular minimum with λ = ½ and multiplicity 2."""

    def __init__(self):
        self.start = [torch.zeros(PAIRS, dtype=torch.float64), torch.zeros(PAIRS, dtype=torch.float64)]

    def losses(self, live, rows_CB):
        return (live[0] * live[1]).square().sum(1, keepdim=True).expand(rows_CB.shape)

    def reference(self, rows_CB):
        return torch.zeros(rows_CB.shape, dtype=torch.float64)


def by_quadrature(nbeta, gamma):
    """nβ E[(w1 w2)²] under exp(−nβ (w1 w2)² − γ/2 (w1² + w2²)), the Gaussian in w2 integrated out by hand."""
    from scipy.integrate import quad

    def weight(w):
        return np.exp(-gamma * w * w / 2) / np.sqrt(2 * nbeta * w * w + gamma)

    end = 12 / np.sqrt(gamma)
    top = quad(lambda w: nbeta * w * w / (2 * nbeta * w * w + gamma) * weight(w), 0, end, limit=500)[0]
    return top / quad(weight, 0, end, limit=500)[0]


TABLE = {
    1: {10: 0.29027, 30: 0.32550, 100: 0.35420, 1000: 0.39027},
    10: {10: 0.06099, 30: 0.11382, 100: 0.18164, 1000: 0.29027},
    100: {10: 0.00099, 30: 0.00293, 100: 0.00929, 1000: 0.06099},
    200: {10: 0.00025, 30: 0.00075, 100: 0.00245, 1000: 0.02112},
    0.1: {10: 0.39027, 1000: 0.42705, 1e4: 0.43754, 1e6: 0.45149},
}


@pytest.mark.parametrize(("gamma", "nbeta", "known"), [(g, n, v) for g, row in TABLE.items() for n, v in row.items()])
def test_quadrature_oracle_gives_the_known_figures(gamma, nbeta, known):
    assert by_quadrature(nbeta, gamma) == pytest.approx(known, abs=1.1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [1, 10, 100, 200])
@pytest.mark.parametrize("nbeta", [10, 30, 100, 1000])
def test_chains_reach_the_singular_expectation(gamma, nbeta):
    stiff = gamma + 2 * nbeta / gamma  # curvature in one weight while the other is at its prior scale 1/√γ
    lr = 0.06 / stiff  # a/2 = 1.5 % there, and twice that in the tail: the step bias that is allowed for below
    relaxation = int(2 / (lr * gamma))
    sampler = Sampler(
        lr=lr, nbeta=nbeta, gamma=gamma, chains=6, draws=20, burn_in=5 * relaxation // 2, batch=1,
        every=relaxation // 20 + 1, dtype="float64",
    )  # fmt: skip
    got, error = value(run(Product(), sampler, chains=6), sampler)
    known = by_quadrature(nbeta, gamma)
    assert error / PAIRS < 0.03 * known
    assert abs(got / PAIRS - known) < 3 * error / PAIRS + 0.03 * known

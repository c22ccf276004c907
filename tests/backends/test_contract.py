"""The laws of the chains, as a matrix of backends and samplers; `EMPTY` says why a cell is not there."""

import dataclasses
import importlib
import itertools
import math

import jax_quadratic
import numpy as np
import pytest
import quadratic
import torch
from quadratic import Law, expected_losses, rotated

from rllc.backends import torch as torch_backend
from rllc.task import Sampler

EIGENVALUES = [0.70, 3.91, 6.63, 9.62, 11.72, 21.82]
HESSIAN = rotated(EIGENVALUES)
SLOPE = np.array([3.0, -2.0, 1.5, 0.5, -1.0, 2.5])
PAPER = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=1, draws=200, burn_in=0, batch=1, dtype="float64")
CHAINS, COPIES = 25, 100  # 25 chains of 100 independent copies of the quadratic
POTENTIALS = {"torch": quadratic.Quadratic, "jax": jax_quadratic.Quadratic}
METHODS = {
    "sgld": {},
    "rmsprop": {"adapt": 60, "alpha": 0.9, "lr": 3e-4},
    "sgnht": {"friction": 20.0},
}
EMPTY = {
    "devinterp": "its chains run one by one with noise of a global generator: test_devinterp.py has its laws",
    "alone jax-sgld": "a compilation for each cell; the thermostat, which sums over weights, is the one that could mix",
    "alone jax-rmsprop": "as alone jax-sgld",
    "singular jax": "this potential says nothing more about a backend than the quadratic does",
    "singular rmsprop": "at the minimum of (w1 w2)² every gradient is small against eps: SGLD at a step of ε/eps",
    "singular sgld-1-30": "the stiffest direction is 60 times the softest and more: 10⁴ to 10⁵ steps; sgnht takes 10³",
    "singular sgld-1-100": "as singular sgld-1-30",
    "singular sgld-1-1000": "as singular sgld-1-30",
}
BACKENDS = ("torch", "jax", "devinterp")
GAMMAS, NBETAS = (1, 10, 100, 200), (10, 30, 100, 1000)  # of the singular potential


def cells(law, *axes):
    """Every combination of the axes but the empty ones, by the names of single values and of the whole cell."""
    chosen = []
    for cell in itertools.product(*axes):
        names = [str(value) for value in cell]
        if not {*names, *(f"{law} {name}" for name in names), f"{law} {'-'.join(names)}"} & EMPTY.keys():
            chosen.append(pytest.param(*cell, id="-".join(names)))
    return chosen


def test_every_empty_cell_is_one_of_the_matrix():
    whole = {f"singular {m}-{g}-{n}" for m in METHODS for g in GAMMAS for n in NBETAS}
    whole |= {f"{law} {name}" for law in ("alone", "singular") for name in (*BACKENDS, *METHODS)}
    assert EMPTY.keys() <= whole | {f"alone {b}-{m}" for b in BACKENDS for m in METHODS} | {*BACKENDS}


each_backend = pytest.mark.parametrize("backend", cells("", BACKENDS))
each_sampler = pytest.mark.parametrize(("backend", "method"), cells("", BACKENDS, METHODS))


def run(backend, sampler, *, slope=None, noise_NR=None, copies=1, chains=CHAINS, noise=1.0, seed=0):
    if backend == "jax":
        pytest.importorskip("jax")
    potential = POTENTIALS[backend](HESSIAN, slope, noise_NR, copies=copies)
    pool = 1 if noise_NR is None else len(noise_NR)
    rows_CSB = np.random.default_rng(seed).integers(pool, size=(chains, sampler.steps, sampler.batch))
    module = importlib.import_module(f"rllc.backends.{backend}")
    return module.run(potential, sampler, rows_CSB, noise_seeds=[seed * chains + c for c in range(chains)], noise=noise)


def value(trace, sampler, copies=COPIES):
    """λ̂ of one copy and its standard error."""
    chains_C = sampler.nbeta * trace.excess_CS[:, sampler.burn_in :: sampler.every].mean(1) / copies
    return chains_C.mean(), chains_C.std(ddof=1) / math.sqrt(len(chains_C))


def changed(**changes):
    return dataclasses.replace(PAPER, **changes)


SETTINGS = [
    # the figures were found independently: exact, stationary, finite number of draws
    ({}, 1.4788, 1.7213, 1.7014),
    ({"gamma": 50}, 2.2264, 2.4585, 2.4081),
    ({"nbeta": 100, "gamma": 10, "lr": 5e-4, "draws": 500}, 2.9059, 3.3236, 3.2857),
    ({"lr": 4e-3}, 1.4788, 4.6710, 4.6338),
]


@pytest.mark.parametrize(("changes", "exact", "stationary", "finite"), SETTINGS)
def test_law_gives_the_known_figures(changes, exact, stationary, finite):
    law = Law.of(HESSIAN, changed(**changes))
    # the eigenvalues are known to two decimals, which near instability moves the third digit of the figures
    assert (law.exact, law.stationary, law.value) == pytest.approx((exact, stationary, finite), rel=1e-3)
    assert PAPER.nbeta * expected_losses(HESSIAN, PAPER).mean() == pytest.approx(Law.of(HESSIAN, PAPER).value)


@pytest.mark.parametrize(("noise", "batch", "known"), [(4.0, 8, 1.8928), (4.0, 32, 1.7492)])
def test_law_gives_the_known_figures_with_minibatch_noise(noise, batch, known):
    assert Law.of(HESSIAN, changed(batch=batch), noise=noise).value == pytest.approx(known, abs=1e-3)


@each_backend
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
def test_sgld_follows_the_quadratic_law(backend, changes):
    sampler = changed(**changes)
    got, error = value(run(backend, sampler, copies=COPIES), sampler)
    law = Law.of(HESSIAN, sampler)
    assert abs(got - law.value) < 3 * error < 0.03 * law.value


@each_backend
def test_slope_at_the_start_relaxes_and_makes_the_value_negative(backend):
    law = Law.of(HESSIAN, PAPER, SLOPE)
    got, error = value(run(backend, PAPER, slope=SLOPE, copies=COPIES), PAPER)
    assert law.exact < 0
    assert abs(law.value - law.stationary) > 10 * error  # the transient matters at this length
    assert abs(got - law.value) < 3 * error


def gradient_noise(variance, size, rows=4096):
    """Noise of the rows' gradients with exactly this covariance, variance · I, and no mean."""
    noise_NR = np.random.default_rng(5).standard_normal((rows, size))
    noise_NR -= noise_NR.mean(0)
    whiten = np.linalg.inv(np.linalg.cholesky(np.cov(noise_NR.T, bias=True))).T
    return math.sqrt(variance) * noise_NR @ whiten


@each_backend
@pytest.mark.parametrize("batch", [8, 32])
def test_minibatch_noise_widens_sgld_as_the_law_says(backend, batch):
    sampler, copies = changed(batch=batch), 10
    got, error = value(
        run(backend, sampler, noise_NR=gradient_noise(4.0, 60), copies=copies, chains=200), sampler, copies
    )
    law, quiet = Law.of(HESSIAN, sampler, noise=4.0), Law.of(HESSIAN, sampler)
    assert abs(got - law.value) < 3 * error
    assert law.value - quiet.value > 5 * error


@each_backend
def test_frozen_rmsprop_follows_the_law_of_its_preconditioner(backend):
    sampler = changed(method="rmsprop", draws=25, adapt=1, alpha=0.9, eps=0.3)
    gain_D = 1 / (math.sqrt(0.1) * abs(SLOPE) + 0.3)  # the gradient of the first step is the slope in every chain
    got, error = value(run(backend, sampler, slope=SLOPE, copies=COPIES), sampler)
    known = PAPER.nbeta * expected_losses(HESSIAN, sampler, SLOPE, gain_D).mean()
    assert abs(got - known) < 3 * error
    assert abs(known - Law.of(HESSIAN, sampler, SLOPE).value) > 10 * error


@each_backend
def test_warmup_follows_the_recursion_written_out(backend):
    sampler = changed(warmup=40, draws=40)
    got, error = value(run(backend, sampler, slope=SLOPE, copies=COPIES), sampler)
    known = sampler.nbeta * expected_losses(HESSIAN, sampler, SLOPE).mean()
    assert abs(got - known) < 3 * error
    assert abs(known - Law.of(HESSIAN, sampler, SLOPE).value) > 10 * error


@each_backend
def test_sgnht_has_no_step_bias_on_a_quadratic(backend):
    sampler = changed(method="sgnht", friction=28.0, burn_in=30, lr=4e-3)
    got, error = value(run(backend, sampler, copies=COPIES), sampler)
    law = Law.of(HESSIAN, sampler)
    assert abs(got - law.exact) < 3 * error < 0.03 * law.exact
    assert law.stationary > 3 * law.exact  # what SGLD gives at this ε


def stein(method, sampler):
    """Σ over weights of an endless chain; for a frozen preconditioner to first order in ε, d + ε/4 tr(G P)."""
    if method == "sgld":
        return Law.of(HESSIAN, sampler).stein
    if method == "sgnht":
        return 6.0
    precision = sampler.nbeta * HESSIAN + sampler.gamma * np.eye(6)
    square_D = np.diag(HESSIAN @ np.linalg.inv(precision) @ HESSIAN)
    return 6 + sampler.lr / 4 * (np.diag(precision) / (np.sqrt(square_D) + sampler.eps)).sum()


@each_sampler
def test_stein_sum_counts_the_weights(backend, method):
    slow = {"lr": 1e-4, "adapt": 200, "burn_in": 400, "draws": 300} if method == "rmsprop" else METHODS[method]
    sampler = changed(**{"burn_in": 60, "draws": 140, "method": method, **slow})
    trace = run(backend, sampler, copies=COPIES)
    stein_C = (sampler.nbeta * trace.along_CS + sampler.gamma * trace.away_CS)[:, sampler.burn_in :].mean(1) / COPIES
    error = stein_C.std(ddof=1) / math.sqrt(CHAINS)
    assert trace.size == 6 * COPIES
    assert Law.of(HESSIAN, PAPER).stein == pytest.approx(6.826, abs=1e-3)
    assert abs(stein_C.mean() - stein(method, sampler)) < 3 * error < 0.1


def written_out(method, sampler, size=6):
    """Losses of a chain without noise, from the documented updates, one weight vector at a time."""
    w, p, excess, square, losses = np.zeros(size), np.zeros(size), 0.0, np.zeros(size), []
    for t in range(sampler.steps):
        losses.append(SLOPE @ w + w @ HESSIAN @ w / 2)
        lr = sampler.lr * min(1, (t + 1) / sampler.warmup)
        loss_force = SLOPE + HESSIAN @ w
        force = sampler.nbeta * loss_force + sampler.gamma * w
        if method == "sgnht":
            h = math.sqrt(lr)
            p = p - h * force
            middle = w + h * p / 2
            after = p * math.exp(-h * (sampler.friction + excess))
            if t * h * sampler.friction > 5:
                excess += h * ((p @ p + after @ after) / 2 / size - 1)
            p = after
            w = middle + h * p / 2
        else:
            if method == "rmsprop" and t < sampler.adapt:
                square = sampler.alpha * square + (1 - sampler.alpha) * loss_force**2
            w = w - lr / 2 * force / ((np.sqrt(square) + sampler.eps) if method == "rmsprop" else 1)
    return np.array(losses)


@each_sampler
def test_without_noise_the_path_is_the_update_written_out(backend, method):
    sampler = changed(**METHODS[method], method=method, draws=80, warmup=5)
    trace = run(backend, sampler, slope=SLOPE, chains=2, noise=0.0)
    assert trace.excess_CS == pytest.approx(np.tile(written_out(method, sampler), (2, 1)), abs=1e-11)


@pytest.mark.parametrize("method", METHODS)
def test_without_noise_the_backends_agree_on_the_same_minibatches(method):
    sampler = changed(**METHODS[method], method=method, draws=80, batch=4, warmup=5)
    kept = {"slope": SLOPE, "noise_NR": gradient_noise(4.0, 6, 512), "chains": 3, "noise": 0.0}
    ours, theirs = run("torch", sampler, **kept), run("jax", sampler, **kept)
    for name in ("excess_CS", "along_CS", "away_CS", "end_CD"):
        np.testing.assert_allclose(getattr(theirs, name), getattr(ours, name), rtol=1e-9, atol=1e-9)


@each_backend
def test_the_curvature_is_near_the_largest_of_the_hessian(backend):
    found = run(backend, changed(draws=3), slope=SLOPE, chains=3).curvature
    assert 0.95 * EIGENVALUES[-1] < found <= EIGENVALUES[-1] * (1 + 1e-9)  # three directions, six curvatures


@each_sampler
def test_zero_step_never_moves(backend, method):
    sampler = changed(**{**METHODS[method], "method": method, "lr": 0.0, "draws": 5})
    trace = run(backend, sampler, slope=SLOPE, noise_NR=gradient_noise(1.0, 6, 64), chains=3)
    start = np.concatenate([np.ravel(array) for array in POTENTIALS[backend](HESSIAN).start])
    assert np.array_equal(trace.end_CD, np.tile(start, (3, 1)))
    assert not trace.excess_CS.any()


@each_sampler
def test_seeds_decide_and_chains_differ(backend, method):
    sampler = changed(**METHODS[method], method=method, draws=5)
    first, again, other = (run(backend, sampler, chains=2, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.end_CD, again.end_CD)
    assert not np.isclose(first.end_CD, other.end_CD).any()
    assert not np.isclose(first.end_CD[0], first.end_CD[1]).any()


@pytest.mark.parametrize(("backend", "method"), cells("alone", BACKENDS, METHODS))
def test_a_chain_is_the_same_among_others(backend, method):
    sampler = changed(**METHODS[method], method=method, draws=60)
    together = run(backend, sampler, slope=SLOPE, chains=3, seed=0)
    alone = run(backend, sampler, slope=SLOPE, chains=1, seed=2)  # whose only seed is 2, as that of the last of three
    np.testing.assert_allclose(together.excess_CS[2:], alone.excess_CS, rtol=1e-12, atol=1e-12)


def test_thinning_only_chooses_draws():
    thinned, every = changed(draws=5, every=3, burn_in=2), changed(draws=15)
    assert thinned.steps == every.steps == 15
    assert np.array_equal(run("torch", thinned, chains=2).excess_CS, run("torch", every, chains=2).excess_CS)


PAIRS = 200


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
@pytest.mark.parametrize(("method", "gamma", "nbeta"), cells("singular", METHODS, GAMMAS, NBETAS))
def test_chains_reach_the_singular_expectation(method, gamma, nbeta):
    stiff = gamma + 2 * nbeta / gamma  # curvature in one weight while the other is at its prior scale 1/√γ
    lr = 0.06 / stiff
    # sgld: a/2 = 1.5 % there, and twice that in the tail; sgnht: what the chain keeps of its start, seen to be 0.3 %
    bias = 0.03 if method == "sgld" else 0.005
    relaxation = int(2 / (lr * gamma) if method == "sgld" else 2 / math.sqrt(lr * gamma))
    sampler = Sampler(
        lr=lr, nbeta=nbeta, gamma=gamma, chains=24, draws=20, burn_in=5 * relaxation // 2, batch=1, method=method,
        every=(1 if method == "sgld" else 4) * relaxation // 20 + 1, friction=2 * math.sqrt(gamma), dtype="float64",
    )  # fmt: skip
    rows_CSB = np.zeros((24, sampler.steps, 1), np.int64)
    got, error = value(torch_backend.run(Product(), sampler, rows_CSB, noise_seeds=list(range(24))), sampler, PAIRS)
    known = by_quadrature(nbeta, gamma)
    assert error < 0.03 * known
    assert abs(got - known) < 3 * error + bias * known

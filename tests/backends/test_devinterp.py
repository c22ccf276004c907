import importlib.util
import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rllc.backends import devinterp
from rllc.backends import torch as ours
from rllc.mistake import Mistake
from rllc.models.pool import Pool
from rllc.models.restriction import restrict
from rllc.task import Sampler
from rllc.zoo import folder

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "fixtures" / "tiny_attn")]
import tiny_attn
from quadratic import Law, Quadratic, rotated

HESSIAN = rotated([0.70, 3.91, 6.63, 9.62, 11.72, 21.82])
SAMPLER = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=3, draws=25, burn_in=0, batch=4, dtype="float64")
installed = pytest.mark.skipif(importlib.util.find_spec("devinterp") is None, reason="devinterp is not installed")


@pytest.fixture
def potential():
    return Quadratic(HESSIAN, np.arange(6.0), np.random.default_rng(0).standard_normal((64, 6)))


def run(backend, potential, sampler, **options):
    rows = np.random.default_rng(1).integers(64, size=(sampler.chains, sampler.steps, sampler.batch))
    return backend.run(potential, sampler, rows, noise_seeds=list(range(sampler.chains)), **options)


@installed
@pytest.mark.parametrize(
    "changes",
    [{}, {"warmup": 10}, {"method": "rmsprop"}, {"method": "rmsprop", "alpha": 0.9, "eps": 0.01}, {"gamma": 0.0}],
    ids=str,
)
def test_without_noise_the_path_is_ours(changes, potential):
    sampler = replace(SAMPLER, **changes)
    theirs, own = (run(backend, potential, sampler, noise=0.0) for backend in (devinterp, ours))
    for name in ("excess_CS", "reference_CS", "along_CS", "away_CS", "end_CD"):
        assert getattr(theirs, name) == pytest.approx(getattr(own, name), abs=1e-9), name
    assert theirs.size == own.size == 6
    assert theirs.end_CD[0] != pytest.approx(theirs.end_CD[1], abs=1e-3)  # minibatches move the chains apart


@installed
@pytest.mark.parametrize("part", ["L0H2", "L1H4", "L1*"])
def test_without_noise_the_path_of_a_real_head_is_ours(part):
    model, weights = folder.load(tiny_attn.path(1600))
    weights = {name: array.double() for name, array in weights.items()}
    pool = Pool(weights, model, torch.from_numpy(tiny_attn.rows("code")[:64]), chains=3, batch=4)
    sampler = replace(SAMPLER, draws=4)
    theirs, own = (run(backend, restrict(pool, part), sampler, noise=0.0) for backend in (devinterp, ours))
    assert theirs.end_CD == pytest.approx(own.end_CD, abs=1e-9)
    assert theirs.excess_CS == pytest.approx(own.excess_CS, abs=1e-9)
    assert abs(own.excess_CS[:, -1]).min() > 1e-6


@installed
def test_with_noise_it_follows_the_law_of_the_quadratic():
    sampler = replace(SAMPLER, chains=60, draws=20, burn_in=5, batch=1)
    trace = run(devinterp, Quadratic(HESSIAN), sampler)
    chains_C = sampler.nbeta * trace.excess_CS[:, sampler.burn_in :].mean(1)
    error = chains_C.std(ddof=1) / np.sqrt(len(chains_C))
    law = Law.of(HESSIAN, sampler).value
    assert error < 0.05 * law
    assert abs(chains_C.mean() - law) < 3 * error


@installed
def test_seeds_decide_and_the_global_randomness_stays(potential):
    torch.manual_seed(5)
    random.seed(5)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    first, again = (run(devinterp, potential, SAMPLER) for _ in range(2))
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    assert np.array_equal(first.end_CD, again.end_CD)
    rows = np.random.default_rng(1).integers(64, size=(3, SAMPLER.steps, SAMPLER.batch))
    alone = devinterp.run(potential, replace(SAMPLER, chains=1), rows[2:], noise_seeds=[2])
    assert np.array_equal(alone.end_CD[0], first.end_CD[2])
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


@installed
@pytest.mark.slow
def test_the_documented_call_is_the_same_chains_with_burn_in_averaged_in():
    sampler = replace(SAMPLER, chains=2, draws=10, burn_in=5, batch=1)
    potential = Quadratic(HESSIAN)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    chains_C, seconds = devinterp.documented(potential, sampler, rows=1, seed=3)
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    trace = devinterp.run(potential, sampler, np.zeros((2, 15, 1), dtype=np.int64), noise_seeds=[3, 4])
    assert chains_C == pytest.approx(sampler.nbeta * trace.excess_CS.mean(1), rel=1e-5)  # it stores float32
    assert seconds > 0
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"method": "sgnht"}, "sampler.method: 'sgnht' of devinterp never applies its momentum"),
        ({"method": "rmsprop", "adapt": 5}, "sampler.adapt: 5 is unknown to devinterp"),
    ],
)
@installed
def test_what_it_cannot_do_is_refused(changes, said, potential):
    with pytest.raises(Mistake, match=said):
        run(devinterp, potential, replace(SAMPLER, **changes))


def test_without_devinterp_it_says_how_to_get_it(potential, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(Mistake, match=r"sampler.backend: devinterp is not installed; pip install 'rllc\[devinterp\]'"):
        run(devinterp, potential, SAMPLER)

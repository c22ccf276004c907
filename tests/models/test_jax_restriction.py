import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from test_attention import LEARNED, SHORT, random_weights

pytest.importorskip("jax")

from rllc.backends import jax as backend
from rllc.backends import torch as other
from rllc.models import jax_restriction, restriction, sharing
from rllc.models.pool import Pool
from rllc.task import Sampler
from rllc.zoo import folder

sys.path.append(str(Path(__file__).parents[1] / "fixtures" / "tiny_attn"))
import tiny_attn

SAMPLER = Sampler(
    lr=1e-3, nbeta=30, gamma=200, chains=3, draws=12, burn_in=0, batch=4, dtype="float64", backend="jax"
)  # fmt: skip
SINGLE = dataclasses.replace(SAMPLER, dtype="float32")
ROWS_CSB = np.random.default_rng(3).integers(23, size=(3, 12, 4))


def pool_of(model, dtype=torch.float64, seed=0):
    weights = {name: array.to(dtype) for name, array in random_weights(model, seed).items()}
    tokens = torch.from_numpy(np.random.default_rng(seed + 1).integers(model.d_vocab, size=(23, model.n_ctx)))
    return Pool(weights, model, tokens, chains=3, batch=4)


def run(pool, part, sampler=SAMPLER, **options):
    potential = jax_restriction.restrict(pool, part, sampler.products)
    return backend.run(potential, sampler, ROWS_CSB, **{"noise_seeds": [1, 2, 3], **options})


def agree(ours, theirs):
    for name in ("excess_CS", "along_CS", "away_CS", "reference_CS", "end_CD", "accept_CS"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=0, atol=1e-9, err_msg=name)
    assert abs(theirs.excess_CS).max() > 1e-4


def in_torch(pool, part):
    return other.run(restriction.restrict(pool, part), SAMPLER, ROWS_CSB, noise_seeds=[1, 2, 3], noise=0.0)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "part"), [(SHORT, "L0H1"), (SHORT, "L1H0.o+L1H0.q"), (SHORT, "*")])
def test_every_part_moves_as_it_does_in_torch(model, part):
    agree(run(pool_of(model), part, noise=0.0), in_torch(pool_of(model), part))


@pytest.mark.slow
@pytest.mark.parametrize("part", ["L1H1", "L2H0"])
def test_what_is_too_large_to_keep_is_computed_for_each_minibatch(part, monkeypatch):
    monkeypatch.setattr(sharing, "CACHE_BYTES", 0)
    assert jax_restriction.restrict(pool_of(LEARNED), part, "exact").frozen["content"] is None
    agree(run(pool_of(LEARNED), part, noise=0.0), in_torch(pool_of(LEARNED), part))


@pytest.mark.slow
@pytest.mark.parametrize("layer", [0, 1])
def test_one_program_and_one_reference_serve_all_heads_checkpoints_and_texts(layer):
    still = dataclasses.replace(SINGLE, lr=0.0)
    before = backend._chains._cache_size()
    for seed in (0, 1):
        pool = pool_of(SHORT, torch.float32, seed)
        for head in range(SHORT.n_heads):
            trace = run(pool, f"L{layer}H{head}", still)
            assert not trace.excess_CS.any()
            assert not trace.away_CS.any()
            assert trace.reference_CS.all()
            assert run(pool, f"L{layer}H{head}", SINGLE).away_CS[:, -1].all()
    assert backend._chains._cache_size() == before + 1


@pytest.mark.slow
def test_zero_step_of_several_heads_gives_exactly_zero():
    trace = run(pool_of(SHORT, torch.float32), "L0*", dataclasses.replace(SINGLE, lr=0.0))
    assert not trace.excess_CS.any()
    assert not trace.away_CS.any()


def test_what_a_layer_shares_goes_when_the_next_one_comes():
    pool = pool_of(SHORT)
    first, second = (jax_restriction.restrict(pool, part, "exact").frozen for part in ("L0H0", "L0H1"))
    assert first["above"] is second["above"]
    assert first["own"] is not second["own"]
    last = jax_restriction.restrict(pool, "L1H0", "exact").frozen
    assert last["base"].shape == (23, SHORT.n_ctx, SHORT.d_vocab)
    assert set(jax_restriction._kept[pool]) == {"common", "layer", "tables", "reference 0", "reference 1"}
    assert jax_restriction._kept[pool]["tables"]["base"] is last["base"]


REAL = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=4, draws=20, burn_in=0, batch=8, backend="jax")
ROWS = 64


def chains(part, noise, which=slice(None), **changes):
    """A trace of the trained model's head; the same minibatches and seeds whatever the options."""
    sampler = dataclasses.replace(REAL, **changes)
    model, weights = folder.load(tiny_attn.path(1600))
    weights = {name: array.to(getattr(torch, sampler.dtype)) for name, array in weights.items()}
    pool = Pool(weights, model, torch.from_numpy(tiny_attn.rows("source")[:ROWS]), chains=4, batch=8)
    rows_CSB = np.random.default_rng(0).integers(ROWS, size=(4, REAL.steps, 8))
    potential = jax_restriction.restrict(pool, part, sampler.products)
    return backend.run(potential, sampler, rows_CSB[which], noise_seeds=[1, 2, 3, 4][which], noise=noise)


def estimate(trace):
    chains_C = REAL.nbeta * trace.excess_CS.mean(1)
    return chains_C.mean(), chains_C.std(ddof=1) / len(chains_C) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize(("part", "products"), [("L0H3", "bf16"), ("L1H6", "bf16_unembed")])
def test_a_trained_head_in_every_precision(part, products):
    exact, half = chains(part, 1.0), chains(part, 1.0, products=products)
    value, error = estimate(exact)
    assert value > 4 * error
    assert exact.end_CD.dtype == half.end_CD.dtype == np.float32
    assert 0 < abs(estimate(half)[0] - value) < error
    single, double = chains(part, 0.0), chains(part, 0.0, dtype="float64")
    # half a unit in the last place of a token's loss and logits of about 10 nats, three roundings, not averaged out
    assert 0 < abs(single.excess_CS - double.excess_CS).max() < 3 * 10 * 2**-24


@pytest.mark.slow
def test_a_chain_has_the_same_value_alone():
    together, alone = chains("L1H6", 1.0), chains("L1H6", 1.0, slice(2, 3))
    assert alone.excess_CS.mean() == pytest.approx(together.excess_CS[2].mean(), rel=1e-3)
    assert np.array_equal(together.excess_CS[2] == 0, np.arange(REAL.steps) == 0)

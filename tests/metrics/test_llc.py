import dataclasses
import math

import numpy as np
import pytest
import torch

from rllc.backends import torch as backend
from rllc.backends.contract import Trace
from rllc.config import Model
from rllc.metrics import llc
from rllc.models import decoder, loss, sharing
from rllc.models import pool as pools
from rllc.models.pool import Pool
from rllc.models.restriction import restrict
from rllc.task import Budget, Sampler, Task

MODEL = Model(2, 4, 16, 4, 12, 40, "shortformer")
SAMPLER = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=3, draws=6, burn_in=4, every=2, batch=5)


def task(part="L1H2", sampler=SAMPLER, **options):
    fields = {"run": "r", "weights": "w", "step": 7, "dataset": "d", "rows": "x", "metric": "llc", "seed": 0}
    return Task(part=part, sampler=sampler, **{**fields, **options})


def changed(**options):
    return dataclasses.replace(SAMPLER, **options)


def pool(sampler=SAMPLER, dtype=torch.float32, weights=None):
    weights = weights or decoder.init(MODEL, 0)
    tokens = torch.from_numpy(np.random.default_rng(0).integers(40, size=(30, 12)))
    return Pool(
        {n: a.to(dtype) for n, a in weights.items()}, MODEL, tokens,
        chains=sampler.chains, batch=sampler.batch, products=sampler.products,
    )  # fmt: skip


def trace_of(excess_CS, size=10, bad=None):
    ones = np.ones_like(excess_CS)
    end = np.zeros((len(excess_CS), size))
    if bad is not None:
        end[bad] = np.nan
    return Trace(excess_CS, ones, 0 * ones, ones, end, size)


def test_estimate_is_the_mean_of_kept_draws_with_the_error_of_chain_means():
    excess = np.full((3, SAMPLER.steps), 99.0)  # burn-in and thinned steps must not matter
    excess[:, [4, 6, 8, 10, 12, 14]] = np.array([[1.0], [2.0], [6.0]]) + np.array([-0.1, 0.1] * 3)
    got = llc.estimate(task(), trace_of(excess), excess, 0.0, seconds=1.5)
    assert got.value == pytest.approx(30 * 3)
    assert got.chains_C == pytest.approx([30, 60, 180])
    assert got.error == pytest.approx(np.std([30, 60, 180], ddof=1) / math.sqrt(3))
    assert got.loss_CS.shape == (3, 15)
    assert got.freedom == 2
    half = 4.302653 * got.error
    assert got.interval() == pytest.approx((got.value - half, got.value + half))
    apart = task(sampler=changed(reference="batches", reference_batches=4))
    with_reference = llc.estimate(apart, trace_of(excess), excess, 2.0, seconds=1.5)
    assert with_reference.error == pytest.approx(math.hypot(got.error, 60))
    assert with_reference.freedom == pytest.approx(
        with_reference.error**4 / (got.error**4 / 2 + 60**4 / 19)
    )  # 4 batches of 5 rows


@pytest.mark.parametrize("where", ["burn-in", "kept", "weights"])
def test_one_non_finite_number_anywhere_makes_the_value_nan(where):
    excess = np.random.default_rng(0).random((3, SAMPLER.steps))
    if where != "weights":
        excess[1, 0 if where == "burn-in" else 6] = np.inf
    got = llc.estimate(task(), trace_of(excess, bad=2 if where == "weights" else None), excess, 0.0, seconds=1)
    assert math.isnan(got.value)
    assert math.isnan(got.error)
    assert got.health == "diverged"
    assert got.reason


def test_a_single_chain_has_a_value_and_no_error():
    one = changed(chains=1)
    got = llc.measure(task(sampler=one), pool(one))
    assert math.isfinite(got.value)
    assert math.isnan(got.error)


def test_a_single_longer_chain_has_the_error_of_its_pieces():
    one = changed(chains=1, draws=30, every=1)
    got = llc.measure(task(sampler=one), pool(one))
    assert got.freedom == 4
    assert got.error == pytest.approx(
        30 * got.loss_CS[0, 4:].reshape(5, 6).mean(1).std(ddof=1) / math.sqrt(5), rel=1e-5
    )


def test_removing_the_bias_scales_value_error_and_chains_alike():
    excess = np.full((3, SAMPLER.steps), 0.01) * np.array([[1.0], [2.0], [6.0]])
    raw, net = (llc.estimate(task(sampler=changed(bias=bias)), trace_of(excess), excess, 0.0, seconds=1)
                for bias in ("reported", "removed"))  # fmt: skip
    factor = (1 - raw.stats["bias_step"]) / (1 + raw.stats["bias_burn_in"])
    assert net.value == pytest.approx(factor * raw.value)
    assert net.error == pytest.approx(factor * raw.error)
    assert net.chains_C == pytest.approx(factor * raw.chains_C)
    assert net.stats["bias_removed"] == pytest.approx(raw.value - net.value)
    assert raw.stats["bias_removed"] == 0
    assert net.stats["bias_step"] == raw.stats["bias_step"]
    below = llc.estimate(task(sampler=changed(bias="removed")), trace_of(-excess), -excess, 0.0, seconds=1)
    assert below.value == pytest.approx(-raw.value)


def test_a_budget_reports_fresh_chains_in_blocks_after_the_pilot():
    sampler = changed(draws=16, budget=Budget(0.0, 1e-9, 7))
    got = llc.measure(task(sampler=sampler), pool(sampler))
    assert (got.health, got.reason) == ("short", f"error {got.error:.2g} with 6 chains, 1e-09 was asked for")
    blocks = [llc.minibatches(task(sampler=sampler), 30, range(start, start + 3)) for start in (3, 6)]
    assert np.array_equal(llc.minibatches(task(sampler=sampler), 30, range(9))[3:], np.concatenate(blocks))
    potential = restrict(pool(sampler), "L1H2")
    for start, rows_CSB in zip((3, 6), blocks, strict=True):
        seeds = llc.noise_seeds(task(sampler=sampler), range(start, start + 3))
        trace = backend.run(potential, sampler, rows_CSB, noise_seeds=seeds)
        assert np.array_equal(trace.excess_CS.astype(np.float32), got.loss_CS[start - 3 : start])
    again = llc.measure(task(sampler=sampler), pool(sampler))
    assert np.array_equal(again.loss_CS, got.loss_CS)
    assert again.stats == got.stats


def test_a_budget_that_a_block_meets_runs_one_block():
    sampler = changed(budget=Budget(0.0, 1e3, 30))
    got = llc.measure(task(sampler=sampler), pool(sampler))
    assert len(got.chains_C) == 3
    assert got.health == llc.measure(task(), pool()).health


def test_a_pilot_that_diverges_is_the_estimate():
    sampler = changed(lr=1e38, gamma=0.0, budget=Budget(0.1, 0.0, 30))
    got = llc.measure(task(sampler=sampler), pool(sampler))
    assert got.health == "diverged"
    assert len(got.chains_C) == 3


def test_a_part_the_loss_does_not_depend_on_has_exactly_zero():
    weights = decoder.init(MODEL, 0)
    weights["L1.o"][2] = 0  # whatever the head computes, nothing of it is written
    got = llc.measure(task("L1H2.q+L1H2.k", changed(lr=5e-3)), pool(weights=weights))
    assert got.value == 0
    assert got.error == 0
    assert got.stats["stein"] > 0.5  # the chains did move


def test_zero_step_gives_exactly_zero():
    still = changed(lr=0.0)
    for part in ("L0H1", "L1H2", "*", "L0*"):
        got = llc.measure(task(part, still), pool(still))
        assert (got.value, got.error) == (0, 0)
        assert not got.loss_CS.any()


def test_minibatches_depend_on_seed_run_dataset_and_chain_only():
    base = llc.minibatches(task(), 1000, range(3))
    assert base.shape == (3, SAMPLER.steps, 5)
    same = [task("L0H0"), task(step=9, weights="other"), task(sampler=changed(lr=0.01))]
    assert all(np.array_equal(llc.minibatches(other, 1000, range(3)), base) for other in same)
    other = [task(seed=1), task(run="s"), task(dataset="e")]
    assert not any(np.array_equal(llc.minibatches(each, 1000, range(3)), base) for each in other)
    assert not np.array_equal(base[0], base[1])
    shared = llc.minibatches(task(sampler=changed(batches="shared")), 1000, range(3))
    assert np.array_equal(shared[0], shared[2])


def test_noise_is_never_shared():
    tasks = [task(), task("L0H0"), task(step=9), task(weights="v"), task(dataset="e"), task(rows="y"), task(seed=1)]
    seeds = [seed for each in tasks for seed in llc.noise_seeds(each, range(3))]
    assert len(set(seeds)) == len(tasks) * 3


def test_same_task_same_bits_and_another_seed_other_bits():
    first, again, other = (llc.measure(task(seed=seed), pool()) for seed in (0, 0, 1))
    assert np.array_equal(first.loss_CS, again.loss_CS)
    assert first.value == again.value != other.value


def test_batch_reference_is_the_mean_over_its_own_rows_and_its_error_is_added():
    paired = llc.measure(task(), pool())
    sampler = changed(reference="batches", reference_batches=4)
    apart = pool(sampler)
    got = llc.measure(task(sampler=sampler), apart)
    rows = llc.batches.estimation(30, seed=0, run="r", dataset="d", chain=-1, steps=4, batch=5)
    reference = decoder.forward(apart.weights, apart.tokens_NL[torch.from_numpy(rows)], MODEL).double().numpy()
    own = changed(reference="batches", reference_batches=4, lr=0.0)
    still = llc.measure(task(sampler=own), apart)  # a chain that never moves: the value is the reference's mismatch
    minibatch = decoder.forward(
        apart.weights,
        apart.tokens_NL[torch.from_numpy(llc.minibatches(task(), 30, range(3)))[:, 4::2].flatten(0, 1)],
        MODEL,
    )
    assert still.value == pytest.approx(30 * (minibatch.double().mean().item() - reference.mean()), abs=1e-4)
    assert abs(still.value) > 0.01
    assert got.error >= 30 * reference.std(ddof=1) / math.sqrt(reference.size)
    assert paired.error < got.error


def test_batching_of_chains_does_not_change_the_number():
    """Each chain alone, at another block shape, gives its value in the common batch within 1e-3 relative."""
    sampler = changed(chains=4, dtype="float32", draws=20)
    together = llc.measure(task(sampler=sampler), pool(sampler))
    alone = changed(chains=1)
    potential = restrict(pool(alone), "L1H2")
    every = range(4)
    rows, seeds = llc.minibatches(task(sampler=sampler), 30, every), llc.noise_seeds(task(sampler=sampler), every)
    for chain in range(4):
        trace = backend.run(potential, sampler, rows[chain : chain + 1], noise_seeds=seeds[chain : chain + 1])
        kept = 30 * trace.excess_CS[:, 4::2].mean()
        assert kept == pytest.approx(together.chains_C[chain], rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": "float32", "products": "bf16_unembed", "batches": "shared"},
        {"method": "sgnht"},
        {"method": "rmsprop", "reference": "batches", "reference_batches": 3},
    ],
)
@pytest.mark.parametrize("limit", [0, sharing.CACHE_BYTES])
def test_heads_that_step_together_have_the_numbers_that_each_has_alone(options, limit, monkeypatch):
    monkeypatch.setattr(sharing, "CACHE_BYTES", limit)
    monkeypatch.setattr(sharing, "PASSES", -1000)
    monkeypatch.setattr(loss, "CHUNK_BYTES", 0)
    monkeypatch.setattr(loss, "CHUNK_TOKENS", 5)
    sampler = changed(**options)
    tasks = [task(part=f"L1H{head}", sampler=sampler) for head in (2, 0, 3)]
    kind = getattr(torch, sampler.dtype)
    for alone, found in zip(
        [llc.measure(each, pool(sampler, kind)) for each in tasks],
        llc.measure_together(tasks, pool(sampler, kind)),
        strict=True,
    ):
        assert np.isfinite(found.value)
        assert (found.task, found.value, found.stats) == (alone.task, alone.value, alone.stats)
        assert np.array_equal(found.loss_CS, alone.loss_CS)


def test_the_frozen_logits_of_heads_that_step_together_are_found_once(monkeypatch):
    monkeypatch.setattr(sharing, "CACHE_BYTES", 0)
    monkeypatch.setattr(sharing, "PASSES", -1000)  # a small model, too, is stepped through the channels of its heads
    sampler, calls = changed(), []
    tasks = [task(part=f"L1H{head}", sampler=sampler) for head in range(4)]
    monkeypatch.setattr(pools, "product", lambda *given: (calls.append(1), loss.product(*given))[1])
    llc.measure_together(tasks[:1], pool(sampler))
    one, stiff = len(calls), 4 * sampler.chains
    calls.clear()
    llc.measure_together(tasks, pool(sampler))
    assert len(calls) - one == 3 * stiff  # no step of the chains, only the gradients that find each head's stiffness


def test_only_heads_of_the_last_layer_step_together():
    with pytest.raises(AssertionError, match="last layer"):
        llc.measure_together([task(part="L1H0"), task(part="L0H0")], pool())


def test_single_precision_follows_double_precision():
    values = []
    for dtype, kind in (("float32", torch.float32), ("float64", torch.float64)):
        sampler = changed(dtype=dtype, lr=1e-3)
        potential = restrict(pool(sampler, kind), "L0H1")
        trace = backend.run(potential, sampler, llc.minibatches(task(), 30, range(3)), noise_seeds=[1, 2, 3], noise=0.0)
        values.append(30 * trace.excess_CS)
    assert values[0] == pytest.approx(values[1], abs=2e-5)
    assert abs(values[1]).max() > 1e-3

import dataclasses

import numpy as np
import pytest
import torch
from test_attention import LEARNED, SHORT, random_weights
from test_decoder import DECODERS

from rllc.config import Model
from rllc.models import decoder, restriction, sharing
from rllc.models import pool as pools
from rllc.models.last_head import LastHead
from rllc.models.layout import names, shapes
from rllc.models.one_head import OneHead
from rllc.models.parts import of
from rllc.task import Budget, Sampler

PARTS = [
    "L0H0",
    "L1H1",
    "L0H1.q",
    "L1H1.o",
    "L1H1.k",
    "L1H0+L1H1",
    "L0*",
    "*.q",
    "*",
    "!L0H0",
    "embed",
    "pos",
    "L1.ln1",
    "L1.bo",
    "final",
    "unembed",
]
DECODER_PARTS = [
    "L0H0", "L1H1", "L0H1.q", "L1H1.o", "L1H0+L1H1", "L0.mlp", "L1.mlp.in", "L1.mlp.out+L1H0", "L0.mlp+L1H1", "L1.ln2",
    "L1.ln1", "L0*", "*.o", "*", "!L0H0", "embed", "final", "unembed",
]  # fmt: skip
CASES = [
    *((model, part) for model in (SHORT, LEARNED) for part in PARTS),
    *((model, part) for model in DECODERS.values() for part in DECODER_PARTS),
    *((DECODERS["llama"], part) for part in ("L0G0", "L1G1", "L0G1.k", "L1G0+L1H1")),
]


def pool_of(model, rows=23, dtype=torch.float64, chains=3, batch=4):
    weights = {name: array.to(dtype) for name, array in random_weights(model).items()}
    tokens = torch.from_numpy(np.random.default_rng(1).integers(model.d_vocab, size=(rows, model.n_ctx)))
    return pools.Pool(weights, model, tokens, chains=chains, batch=batch)


def moved(potential, seed=0):
    """Live arrays off w*, different for each chain."""
    generator = torch.Generator().manual_seed(seed)
    return [
        (a + 0.3 * torch.randn(3, *a.shape, generator=generator, dtype=a.dtype)).requires_grad_()
        for a in potential.start
    ]


@pytest.mark.parametrize(("model", "part"), CASES)
def test_restricted_loss_and_gradient_are_those_of_the_whole_model(model, part):
    """The oracle: put the live arrays into a whole set of weights and run everything from the tokens on."""
    pool = pool_of(model)
    potential = restriction.restrict(pool, part)
    rows = torch.from_numpy(np.random.default_rng(2).integers(23, size=(3, 4)))
    live = moved(potential)
    got = potential.losses(live, rows)
    chosen = of(model, part)
    places = {name: (stack, at) for name, stack, at in names(model)}
    expected = []
    for chain in range(3):
        weights = {name: pool.weights[name] for name in shapes(model)}  # without what the pool completes
        for name, array in zip(chosen, live, strict=True):
            stack, at = places[name]
            if at is None:
                weights[stack] = array[chain]
            else:
                weights[stack] = torch.stack([array[chain] if i == at else row for i, row in enumerate(weights[stack])])
        expected.append(decoder.forward(weights, pool.tokens_NL[rows[chain]][None], model))
    expected = torch.cat(expected)
    assert torch.allclose(got, expected, atol=1e-11)
    generator = torch.Generator().manual_seed(3)
    slope = torch.randn(3, 1, generator=generator, dtype=torch.float64).expand(3, 4)  # of the mean over rows
    for mine, theirs in zip(*(torch.autograd.grad(loss, live, slope) for loss in (got, expected)), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-11)


WIDE = {
    "short": Model(2, 8, 64, 8, 64, 512, "shortformer"),
    "parallel": Model(2, 8, 64, 8, 64, 512, "rotary", d_rotary=2, d_mlp=256, parallel=True, bias_unembed=False),
    "tied": Model(2, 8, 64, 8, 64, 512, "learned", d_mlp=256, tied=True, bias_unembed=False),
    "grouped": Model(
        2, 8, 64, 8, 64, 512, "rotary", 2, 8, norm="rms", d_mlp=172, activation="silu", gated=True, bias_qkv=False,
        bias_o=False, bias_mlp=False, bias_unembed=False,
    ),
}  # fmt: skip


STARTS = [
    *((name, part) for name in WIDE for part in ("L0H0", "L1H2", "L0H1.q", "L0*", "*", "unembed", "embed")),
    *((name, part) for name in ("parallel", "tied", "grouped") for part in ("L0.mlp", "L1.mlp")),
    ("grouped", "L1G1"),
]


@pytest.mark.parametrize(("name", "part"), STARTS)
@pytest.mark.parametrize(("dtype", "at_once"), [(torch.float32, 3), (torch.float64, 3), (torch.float32, 1)])
def test_at_the_start_every_row_gives_exactly_its_reference(name, part, dtype, at_once):
    model = WIDE[name]
    pool = pool_of(model, rows=40, dtype=dtype, chains=at_once, batch=4)
    potential = restriction.restrict(pool, part)
    rows = torch.from_numpy(np.random.default_rng(0).integers(40, size=(5, 3, 4)))
    for rows_CB in rows:
        live = [array.expand(3, *array.shape).clone().requires_grad_() for array in potential.start]
        assert torch.equal(potential.losses(live, rows_CB), potential.reference(rows_CB))


@pytest.mark.parametrize("kind", [OneHead, LastHead])
@pytest.mark.parametrize("model", [SHORT, DECODERS["parallel"], DECODERS["parallel llama"]])
def test_a_pool_too_large_to_keep_gives_the_same_numbers(model, kind, monkeypatch):
    rows = torch.from_numpy(np.random.default_rng(2).integers(23, size=(3, 4)))
    owner, results = f"L{model.n_layers - 1}H1", []
    for limit in (sharing.CACHE_BYTES, 0):
        monkeypatch.setattr(sharing, "CACHE_BYTES", limit)
        potential = kind(pool_of(model), owner, of(model, owner))
        results.append((potential.losses(moved(potential), rows), potential.reference(rows)))
    for kept, computed in zip(*results, strict=True):
        assert torch.allclose(kept, computed, atol=1e-13)


def test_the_cheaper_way_through_the_last_layer_is_taken():
    """The paper's model by its channels however large the pool; Pythia's vocabulary so only from many tokens on."""
    paper = Model(1, 8, 256, 32, 1024, 5000, "shortformer")
    pythia = Model(1, 8, 512, 64, 256, 50304, "rotary", d_rotary=16, d_mlp=8, parallel=True, bias_unembed=False)
    for model, batch, pays in ((paper, 1, True), (paper, 32, True), (pythia, 1, False), (pythia, 8, True)):
        assert not sharing.keeps_logits(model, (1024, model.n_ctx), 4)
        assert sharing.through_channels(model, (1024, model.n_ctx), batch, 4) == pays, (model, batch)


def test_heads_step_together_where_that_saves_the_frozen_logits_and_memory_allows_it():
    paper = Model(2, 8, 256, 32, 256, 5000, "shortformer")
    sampler = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=4, draws=200, burn_in=0, batch=8)
    assert sharing.together(paper, sampler, 1024) == 8
    assert sharing.together(dataclasses.replace(paper, n_ctx=1024), dataclasses.replace(sampler, batch=32), 1024) == 3
    for alone in (
        (dataclasses.replace(paper, d_vocab=200), sampler, 1024),  # its frozen logits are kept
        (dataclasses.replace(paper, d_mlp=64), sampler, 1024),  # an MLP reads what a head writes
        (paper, dataclasses.replace(sampler, backend="jax"), 1024),
        (paper, dataclasses.replace(sampler, budget=Budget(0.1, 0.0, 8)), 1024),
    ):
        assert sharing.together(*alone) == 1


def test_frozen_weights_never_move():
    from rllc.backends import torch as backend

    pool = pool_of(SHORT)
    before = {name: array.clone() for name, array in pool.weights.items()}
    sampler = Sampler(lr=1e-2, nbeta=30, gamma=50, chains=3, draws=10, burn_in=0, batch=4)
    for part in ("L0H1", "L1*", "*"):
        potential = restriction.restrict(pool, part)
        trace = backend.run(potential, sampler, np.zeros((3, 10, 4), np.int64), noise_seeds=[1, 2, 3])
        assert (np.linalg.norm(trace.end_CD, axis=1) > 0).all()
        assert all(torch.equal(before[name], array) for name, array in pool.weights.items()), part


def test_what_a_part_kept_is_freed():
    pool = pool_of(SHORT)
    for part in ("L0H1", "L0*"):
        pool.reference(torch.zeros(3, 4, dtype=torch.long))
        kept = set(pool._kept)
        potential = restriction.restrict(pool, part)
        potential.losses(moved(potential), torch.zeros(3, 4, dtype=torch.long))
        potential.close()
        assert {name for name in set(pool._kept) - kept if name.split()[0] not in ("stream", "content")} == set()


def test_what_is_too_large_to_keep_is_computed_once_for_a_minibatch(monkeypatch):
    monkeypatch.setattr(sharing, "CACHE_BYTES", 0)
    pool, calls = pool_of(SHORT), []

    def compute(rows_CB):
        calls.append(rows_CB)
        return rows_CB.double()

    first, second = torch.zeros(3, 4, dtype=torch.long), torch.ones(3, 4, dtype=torch.long)
    for rows in (first, first, second, second, first):
        assert torch.equal(pool.once("thing", compute)(rows), rows.double())
    assert len(calls) == 1 + 3  # the block that shows the size, then one for each change of minibatch


@pytest.mark.parametrize(
    ("name", "part", "mixes", "mlps"),
    [
        ("parallel", "L2H1", 1, 0),  # nothing reads what the last layer's head writes but the unembedding
        ("parallel", "L1H1", 2, 1),
        ("parallel", "L0H1", 3, 2),
        ("sequential", "L1H1", 1, 1),
        ("sequential", "L0H1", 2, 2),
        ("sequential", "L1.mlp", 0, 1),  # the heads below are frozen
        ("sequential", "L0.mlp+L1H0", 1, 2),
        ("parallel", "L1.ln2", 1, 2),
        ("sequential", "final", 0, 0),
        ("llama", "L1G0", 1, 1),
    ],
)
def test_a_step_computes_only_what_the_part_can_change(name, part, mixes, mlps, monkeypatch):
    from rllc.models import attention

    pool, calls = pool_of(DECODERS[name]), []
    potential = restriction.restrict(pool, part)
    rows = torch.from_numpy(np.random.default_rng(2).integers(23, size=(3, 4)))
    potential.losses(moved(potential), rows)
    for module, what in ((attention, "mix"), (decoder, "mlp")):
        original = getattr(module, what)
        monkeypatch.setattr(module, what, lambda *a, o=original, w=what: (calls.append(w), o(*a))[1])
    potential.losses(moved(potential), rows)
    assert (calls.count("mix"), calls.count("mlp")) == (mixes, mlps)

import numpy as np
import pytest
import torch
from test_attention import SHORT, random_weights
from test_decoder import DECODERS

from rllc.metrics import llc, token_losses
from rllc.models import chains, restriction
from rllc.models.pool import Pool
from rllc.task import Sampler, Task

SAMPLER = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=4, draws=12, burn_in=2, batch=3, dtype="float64")
CASES = [
    (model, part)
    for model, parts in {"short": ("L0H1", "L1H2", "L0*", "*"), "parallel": ("L0H1", "L1H0", "L1.mlp", "embed")}.items()
    for part in parts
]


def pool_of(name, *, at_once):
    model = {"short": SHORT, **DECODERS}[name]
    tokens = torch.from_numpy(np.random.default_rng(0).integers(model.d_vocab, size=(20, model.n_ctx)))
    return Pool(random_weights(model), model, tokens, chains=at_once, batch=3)


def found(name, part, at_once):
    """Losses and gradients of four chains away from w*."""
    potential = restriction.restrict(pool_of(name, at_once=at_once), part)
    rng = torch.Generator().manual_seed(1)
    live = [a + 0.1 * torch.randn(4, *a.shape, generator=rng, dtype=a.dtype) for a in potential.start]
    live = [array.requires_grad_() for array in live]
    rows = torch.from_numpy(np.random.default_rng(1).integers(20, size=(4, 3)))
    loss = potential.losses(live, rows)
    return [loss.detach(), *torch.autograd.grad(loss.mean(1).sum(), live, materialize_grads=True)]


@pytest.mark.parametrize(("name", "part"), CASES)
def test_chains_in_turn_have_the_losses_and_gradients_of_chains_at_once(name, part):
    whole, one, two = (found(name, part, count) for count in (4, 1, 2))
    assert max(array.abs().max() for array in whole[1:]) > 1e-4
    for turned in (one, two):
        for got, expected in zip(turned, whole, strict=True):
            assert torch.allclose(got, expected, rtol=1e-10, atol=1e-12)


def test_only_so_many_chains_are_seen_at_once_and_the_graph_holds_gradients_alone():
    seen = []

    def losses(live, rows_CB):
        seen.append((len(live[0]), rows_CB.tolist(), torch.is_grad_enabled()))
        return [live[0].square().sum(1, keepdim=True) * rows_CB, live[0].sum(1, keepdim=True) * rows_CB]

    live, rows = torch.arange(12.0).view(6, 2).requires_grad_(), torch.arange(1, 13).view(6, 2)
    first, second = chains.in_turn(losses, [live], rows, 2)
    assert [(count, asked) for count, asked, _ in seen] == [(2, rows[i : i + 2].tolist()) for i in (0, 2, 4)]
    assert all(graph for _, _, graph in seen)
    assert first.grad_fn is second.grad_fn is not None
    (grad,) = torch.autograd.grad(3 * (first.mean(1).sum() + second.mean(1).sum()), live)
    assert torch.allclose(grad, 3 * (2 * live + 1) * rows.double().mean(1, keepdim=True).float())
    with torch.no_grad():
        assert torch.equal(chains.in_turn(losses, [live], rows, 2)[0], first)
    with pytest.raises(AssertionError, match="only the mean over rows"):
        torch.autograd.grad(chains.in_turn(losses, [live], rows, 2)[0][:, 0].sum(), live)


@pytest.mark.parametrize(
    ("count", "row", "expected"),
    [(4, 2, 4), (4, 3, 2), (4, 4, 2), (4, 8, 1), (4, 9, 1), (6, 2, 3), (5, 2, 1), (1, 9, 1)],
)
def test_as_many_chains_at_once_as_fit_and_divide(count, row, expected):
    assert chains.at_once(count, row * 2**20, "cpu") == expected


def test_estimates_and_token_losses_are_those_of_chains_at_once(monkeypatch):
    model, rows = SHORT, np.random.default_rng(0).integers(SHORT.d_vocab, size=(20, SHORT.n_ctx))
    task = Task("r", "w", 7, "L0H1", "d", "x", "llc", 0, SAMPLER)
    got = {}
    for size in (2**30, 1):
        monkeypatch.setitem(chains.BLOCK_BYTES, "cpu", size)
        pool = Pool.of(random_weights(model), model, rows, SAMPLER)
        assert pool.chains == (4 if size > 1 else 1)
        got[size] = llc.measure(task, pool), token_losses.Watched(task, pool, 5)
        llc.sample(task, got[size][1], reference=pool.reference, rows=len(rows))
    (whole, seen), (turned, watched) = got.values()
    assert np.allclose(turned.loss_CS, whole.loss_CS, rtol=1e-6, atol=1e-9)
    assert turned.value == pytest.approx(whole.value, rel=1e-9)
    assert turned.stats["curvature"] == pytest.approx(whole.stats["curvature"], rel=1e-6)
    assert torch.allclose(watched.mean(), seen.mean(), rtol=1e-9, atol=1e-12)
    assert watched.looks == seen.looks == 2

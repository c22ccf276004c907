import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from flat import views

from rllc.config import Model
from rllc.metrics import fisher, hessian, rank
from rllc.models import attention, beside, decoder, gradients
from rllc.models.pool import Pool
from rllc.models.restriction import restrict

sys.path.append(str(Path(__file__).parent))
from planted_circuit import task

MODEL = Model(2, 2, 6, 2, 5, 7, "learned")
PARTS = ("L0H1", "L1H0", "L0*")


def weights():
    """Weights at which every part has curvature of either sign."""
    return {name: array.double() for name, array in decoder.init(MODEL, 3).items()}


def pool(rows=32, **changes):
    tokens = torch.from_numpy(np.random.default_rng(0).integers(7, size=(rows, 5)))
    return Pool({**weights(), **changes}, MODEL, tokens, chains=1, batch=8)


def logits(own, tokens):
    """The model once more, plainly, so that it can be differentiated twice: (N, L − 1, V)."""
    x = own["embed"][tokens] + own["pos"]
    for layer in range(MODEL.n_layers):
        y = torch.nn.functional.layer_norm(x, (6,)) * own[f"L{layer}.ln1.w"] + own[f"L{layer}.ln1.b"]
        for head in range(MODEL.n_heads):
            q, k, v = (y @ own[f"L{layer}H{head}.{name}"] + own[f"L{layer}H{head}.b{name}"] for name in "qkv")
            score = q @ k.mT / MODEL.d_head**0.5
            later = torch.ones(5, 5, dtype=torch.bool).triu(1)
            x = x + score.masked_fill(later, -torch.inf).softmax(-1) @ v @ own[f"L{layer}H{head}.o"]
        x = x + own[f"L{layer}.bo"]
    y = torch.nn.functional.layer_norm(x, (6,)) * own["final.w"] + own["final.b"]
    return (y @ own["unembed"] + own["unembed.b"])[:, :-1]


def split(part):
    """The part's arrays as one vector, and logits as a function of it."""
    own, made = views(weights(), MODEL), pool()
    names = restrict(made, part).names
    start = torch.cat([own[name].flatten() for name in names])
    sizes = [own[name].numel() for name in names]

    def of(vector, tokens):
        pieces = zip(names, vector.split(sizes), strict=True)
        return logits({**own, **{name: piece.view(own[name].shape) for name, piece in pieces}}, tokens)

    return start, of


def dense(part, tokens):
    """The Hessian of the mean loss over all rows by differentiating twice."""
    start, of = split(part)
    return torch.autograd.functional.hessian(
        lambda w: torch.nn.functional.cross_entropy(of(w, tokens).flatten(0, 1), tokens[:, 1:].flatten()), start
    )


@pytest.mark.parametrize("part", PARTS)
def test_products_are_those_of_the_dense_hessian(part):
    own = beside.several(pool())
    potential, expected = restrict(own, part), dense(part, own.tokens_NL)
    v_CD = torch.from_numpy(np.random.default_rng(1).standard_normal((8, len(expected))))
    got = gradients.bend(potential, v_CD, own.every.expand(8, -1))
    assert torch.allclose(got, v_CD @ expected, rtol=0, atol=3e-4 * (v_CD @ expected).norm(dim=1).max())
    assert abs(expected).max() > 0.01
    flipped = gradients.bend(potential, 100 * v_CD, own.every.expand(8, -1))
    assert torch.allclose(flipped, 100 * got)  # the step does not grow with the vector


@pytest.mark.slow
@pytest.mark.parametrize("measure", [hessian.hutchinson, hessian.xtrace])
def test_both_traces_are_unbiased_and_their_errors_are_true(measure):
    """40 estimates from other seeds: their mean is that of the dense matrix, their spread what the errors say."""
    own = pool()
    for part in PARTS[:2]:
        truth = dense(part, own.tokens_NL).trace().item()
        made = [measure(task(part, "hessian_trace", seed), own) for seed in range(40)]
        value, error = (np.array([getattr(one, name) for one in made]) for name in ("value", "error"))
        assert abs(value.mean() - truth) < 3 * value.std(ddof=1) / np.sqrt(40)
        assert np.sqrt((error**2).mean()) == pytest.approx(value.std(ddof=1), rel=0.35)
        assert made[0].stats["weights"] == len(dense(part, own.tokens_NL))
        assert made[0].freedom == len(made[0].chains_C) - 1


def test_xtrace_is_exact_below_the_rank_of_its_probes_and_hutchinson_is_not():
    rng = np.random.default_rng(0)
    half = torch.from_numpy(rng.standard_normal((2, 40, 3)))
    matrix = half @ torch.diag(torch.tensor([5.0, -3.0, 1.0]).double()) @ half.mT
    test = torch.from_numpy(rng.integers(0, 2, (2, 40, 6)) * 2.0 - 1)
    got = hessian.exchanged(test, lambda v: matrix @ v)
    truth = matrix.diagonal(dim1=1, dim2=2).sum(1)
    assert torch.allclose(got, truth)
    single = (test * (matrix @ test)).sum(1)
    assert (abs(single - truth[:, None]) > 0.5).any()
    still = hessian.exchanged(test, lambda v: 0 * v)
    assert (still == 0).all()


def test_xtrace_beats_hutchinson_on_a_decaying_spectrum_at_equal_work():
    rng = np.random.default_rng(0)
    basis = torch.linalg.qr(torch.from_numpy(rng.standard_normal((60, 60))))[0]
    matrix = (basis * 0.6 ** torch.arange(60).double()) @ basis.T
    tests = torch.from_numpy(rng.integers(0, 2, (400, 60, 6)) * 2.0 - 1)
    off = hessian.exchanged(tests, lambda v: matrix @ v) - matrix.trace()
    probes = torch.from_numpy(rng.integers(0, 2, (400, 60, 12)) * 2.0 - 1)
    plain = (probes * (matrix @ probes)).sum(1).mean(1) - matrix.trace()
    assert abs(off.mean()) < 3 * off.std() / 20
    assert off.std() < 0.3 * plain.std()


@pytest.mark.slow
def test_the_fisher_trace_is_that_of_the_gauss_newton_matrix():
    """Tr F = mean over tokens of Tr Jᵀ (diag p − p pᵀ) J, with J the Jacobian of the logits."""
    own = Pool(weights(), MODEL, 3 * (pool().tokens_NL % 2), chains=1, batch=8)  # a text that the model does not expect
    for part in PARTS[:2]:
        start, of = split(part)
        jacobian = torch.autograd.functional.jacobian(lambda w, of=of: of(w, own.tokens_NL), start)
        share = of(start, own.tokens_NL).softmax(-1)
        mean = torch.einsum("nlv,nlvd->nld", share, jacobian)
        truth = ((share[..., None] * jacobian**2).sum((2, 3)) - (mean**2).sum(2)).mean().item()
        made = [fisher.measure(task(part, "fisher_trace", seed), own) for seed in range(40)]
        value, error = (np.array([getattr(one, name) for one in made]) for name in ("value", "error"))
        assert abs(value.mean() - truth) < 3 * value.std(ddof=1) / np.sqrt(40)
        assert np.sqrt((error**2).mean()) == pytest.approx(value.std(ddof=1), rel=0.35)
        text = torch.nn.functional.one_hot(own.tokens_NL[:, 1:], 7)
        empirical = (torch.einsum("nlv,nlvd->nld", share - text, jacobian) ** 2).sum(2).mean().item()
        assert abs(value.mean() - empirical) > 5 * value.std(ddof=1) / np.sqrt(40)  # not that of the text's labels


def test_labels_are_drawn_from_the_model_and_shared_by_the_parts_of_a_checkpoint():
    own = pool(8)
    known = beside.several(own)
    rows = torch.arange(8).repeat(8, 1)
    rng = np.random.default_rng(0)
    drawn = torch.stack([fisher._draw(known, rows, rng) for _ in range(400)]).flatten(0, 1)
    counts = torch.nn.functional.one_hot(drawn, 7).double().mean(0)
    share = logits(views(weights(), MODEL), own.tokens_NL).softmax(-1)
    assert abs(counts - share).max() < 5 * (0.25 / 3200) ** 0.5
    last = torch.from_numpy(np.random.default_rng(0).standard_normal((1, 8, 4, 6)))
    one, other, later = (
        fisher.labelled(each, own).loss(weights(), last, torch.arange(8)[None])
        for each in (task("L0H0"), task("L1H1"), dataclasses.replace(task("L0H0"), weights="v"))
    )
    assert torch.equal(one, other)
    assert not torch.equal(one, later)


@pytest.mark.parametrize("part", PARTS[:2])
def test_the_rank_is_the_share_of_the_probes_in_the_large_eigenspaces_of_the_dense_matrix(part, monkeypatch):
    """With the whole Krylov space the quadrature is exact for its probes, and their mean is the count."""
    own = pool()
    hessian_DD = dense(part, own.tokens_NL)
    value, vector = torch.linalg.eigh(hessian_DD)
    large = value.abs() > value.abs().sort().values[-8:-6].mean()  # between two eigenvalues
    assert large.sum() == 7
    monkeypatch.setattr(rank, "STEPS", len(value))
    monkeypatch.setattr(rank, "THRESHOLD", float(value.abs().sort().values[-8:-6].mean()))
    got = rank.measure(task(part, "hessian_rank"), own)
    probes = hessian.signs(task(part, "hessian_rank"), rank.PROBES, len(value))
    each = ((probes @ vector)[:, large] ** 2).sum(1).numpy()
    assert got.chains_C == pytest.approx(each, rel=1e-3)
    assert got.error == pytest.approx(each.std(ddof=1) / 2, rel=1e-2)
    assert got.stats["largest"] == pytest.approx(value.abs().max().item(), rel=1e-3)
    many = hessian.signs(task(part), 1000, len(value))
    nodes, shares = rank.quadrature(rank.lanczos(lambda v: v @ hessian_DD, many, 16))
    counts = len(value) * (shares * (abs(nodes) > rank.THRESHOLD)).sum(1)
    assert abs(counts.mean() - 7) < 3 * counts.std() / 1000**0.5


def test_lanczos_of_a_space_that_ends_keeps_the_quadrature():
    """A start that lies in two eigenspaces: two nodes with its shares, whatever the steps."""
    matrix = torch.diag(torch.tensor([3.0, 3.0, 1.0, 0.0, -2.0]).double())
    start = torch.tensor([[1.0, 1.0, 0.0, 0.0, 2.0]]).double()
    value, share = rank.quadrature(rank.lanczos(lambda v: v @ matrix, start, 5))
    heavy = share[0] > 1e-9
    assert value[0][heavy] == pytest.approx([-2, 3])
    assert share[0][heavy] == pytest.approx([4 / 6, 2 / 6])
    assert share.sum() == pytest.approx(1)


def test_a_part_the_loss_does_not_depend_on_has_no_curvature():
    stacked = weights()
    stacked["L1.o"][0] = 0
    own = pool(**{"L1.o": stacked["L1.o"]})
    part = "L1H0.q+L1H0.k"
    for measure in (hessian.hutchinson, hessian.xtrace, fisher.measure, rank.measure):
        got = measure(task(part), own)
        assert (got.value, got.error) == (0, 0)


def test_minibatches_are_shared_and_signs_are_not():
    own = pool()
    assert torch.equal(hessian.minibatches(task("L0H0"), own, 4), hessian.minibatches(task("L1H1"), own, 4))
    assert not torch.equal(hessian.signs(task("L0H0"), 4, 9), hessian.signs(task("L1H1"), 4, 9))
    assert hessian.signs(task("L0H0"), 500, 9).abs().max() == 1
    assert attention.matrices(own.weights, 0)["q"].shape == (2, 6, 2)

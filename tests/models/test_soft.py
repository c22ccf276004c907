import numpy as np
import pytest
import torch
from test_attention import LEARNED, SHORT, random_weights

from rllc.config import Model
from rllc.metrics import llc
from rllc.models import decoder, loss, restriction, soft
from rllc.models.layout import names
from rllc.models.parts import select
from rllc.models.pool import Pool
from rllc.task import Sampler, Task

ONE_LAYER = {SHORT: Model(1, 2, 6, 3, 10, 17, "learned"), LEARNED: Model(1, 4, 12, 3, 9, 11, "shortformer")}
SAMPLER = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=3, draws=20, burn_in=0, batch=4)
PARTS = ["L0H0", "L1H1", "L1H0.o", "L0*", "L1.ln1", "embed", "final", "unembed", "unembed.b", "*", "!unembed"]


def dense(head, label, kind):
    """The definition, with all logits at once."""
    log_p, log_q = ((x @ matrix + bias).log_softmax(-1) for x, matrix, bias in (head, label))
    q = log_q.exp()
    return -(q * log_p).sum(-1) + ((q * log_q).sum(-1) if kind == "kl" else 0)


def pools(model, baseline, kind, *, dtype=torch.float64, seeds=(0, 1), rows=23):
    """A pool whose labels are those of another model on the same rows."""
    tokens = torch.from_numpy(np.random.default_rng(1).integers(model.d_vocab, size=(rows, model.n_ctx)))
    placed = [
        {name: array.to(dtype) for name, array in random_weights(each, seed).items()}
        for each, seed in zip((model, baseline), seeds, strict=True)
    ]
    labels = soft.Labels(kind, Pool(placed[1], baseline, tokens, chains=3, batch=4))
    return Pool(placed[0], model, tokens, chains=3, batch=4, loss=labels.losses), placed


@pytest.mark.parametrize("kind", ["kl", "ce"])
def test_losses_and_all_gradients_are_those_of_the_definition(kind, monkeypatch):
    monkeypatch.setattr(loss, "CHUNK_TOKENS", 16)
    monkeypatch.setattr(loss, "CHUNK_BYTES", 16 * 7 * 8)  # 16 tokens of 7 logits: several chunks, the last one short
    generator = torch.Generator().manual_seed(0)
    make = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    head = [array.requires_grad_() for array in (make(50, 4), make(4, 7), make(7))]
    label = [make(50, 3), make(3, 7), make(7)]
    got, expected = soft.divergence(head, label, kind), dense(head, label, kind)
    assert torch.allclose(got, expected, atol=1e-12)
    for mine, theirs in zip(*(torch.autograd.grad(value.mean(), head) for value in (got, expected)), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-12)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(("model", "kind"), [(SHORT, "kl"), (LEARNED, "ce")])
def test_restricted_loss_and_gradient_are_those_of_two_whole_models(part, model, kind):
    """The oracle: both models from their tokens on, one chain at a time, all probabilities in memory."""
    baseline = ONE_LAYER[model]
    pool, (weights, others) = pools(model, baseline, kind)
    potential = restriction.restrict(pool, part)
    rows = torch.from_numpy(np.random.default_rng(2).integers(23, size=(3, 4)))
    generator = torch.Generator().manual_seed(0)
    live = [
        (a + 0.3 * torch.randn(3, *a.shape, generator=generator, dtype=a.dtype)).requires_grad_()
        for a in potential.start
    ]
    places = {name: (stack, at) for name, stack, at in names(model)}
    expected = []
    for chain in range(3):
        moved = {name: array.clone() for name, array in weights.items()}
        for name, array in zip(select(part, list(places)), live, strict=True):
            stack, at = places[name]
            moved[stack][... if at is None else at] = array[chain]
        tokens = pool.tokens_NL[rows[chain]][None]
        heads = [logits_of(each, tokens, shape) for each, shape in ((moved, model), (others, baseline))]
        expected.append(dense(*heads, kind).mean(-1))
    got, expected = potential.losses(live, rows), torch.cat(expected)
    assert torch.allclose(got, expected, atol=1e-11)
    for mine, theirs in zip(*(torch.autograd.grad(value.sum(), live) for value in (got, expected)), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-11)


def logits_of(weights, tokens, model):
    x = decoder.embed(weights, tokens, model)
    for index in range(model.n_layers):
        x = decoder.layer(weights, index, x, model)
    last = decoder.last(weights, x, model)
    return last, weights["unembed"], weights["unembed.b"]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_model_labelled_by_itself_is_at_the_minimum(part, dtype):
    """Exactly, where the stream at w* is the very one of the pool; else up to the rounding of logits of size 10."""
    pool, _ = pools(SHORT, SHORT, "kl", dtype=dtype, seeds=(0, 0))
    potential = restriction.restrict(pool, part)
    rows = torch.from_numpy(np.random.default_rng(2).integers(23, size=(3, 4)))
    live = [array.repeat(3, *[1] * array.dim()).requires_grad_() for array in potential.start]
    value = potential.losses(live, rows)
    recomputed = part in ("L0*", "L1.ln1", "final", "*", "!unembed")
    bound = 100 * torch.finfo(dtype).eps if recomputed else 0.0
    assert value.abs().max() <= bound
    assert (value - potential.reference(rows)).abs().max() <= bound
    assert all(grad.abs().max() <= 10 * bound for grad in torch.autograd.grad(value.sum(), live))


@pytest.mark.parametrize("part", ["L1H1", "L0*"])
def test_chains_around_a_model_labelled_by_itself_never_fall_below_it(part):
    """KL ≥ 0 with equality at w*: so is every draw's excess, up to rounding of a token's logits."""
    pool, _ = pools(SHORT, SHORT, "kl", dtype=torch.float32, seeds=(0, 0))
    task = Task("r", "w", 0, part, "d", "x", "llc", 0, SAMPLER, "kl:w")
    got = llc.measure(task, pool)
    assert (got.loss_CS[:, 0] == 0).all()
    assert got.loss_CS.min() > -1e-6
    assert got.value > 0


def test_the_cross_entropy_is_the_divergence_and_the_entropy_of_the_labels():
    """So that both have the same chains, and λ̂ to the last digits."""
    found = []
    for kind in ("kl", "ce"):
        pool, _ = pools(SHORT, ONE_LAYER[SHORT], kind)
        task = Task("r", "w", 0, "L1H1", "d", "x", "llc", 0, SAMPLER, "same key, same noise")
        found.append(llc.measure(task, pool))
    assert np.allclose(found[0].loss_CS, found[1].loss_CS, rtol=0, atol=1e-7)
    assert abs(found[0].value) > 1e-3


def test_logits_are_never_whole():
    tokens, vocab = 4096, 5000
    x, matrix = torch.zeros(tokens, 2, requires_grad=True), torch.zeros(2, vocab)
    biggest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
            nonlocal biggest
            out = function(*args, **(kwargs or {}))
            for array in out if isinstance(out, tuple | list) else [out]:
                if isinstance(array, torch.Tensor):
                    biggest = max(biggest, array.numel() * array.element_size())
            return out

    with Watch():
        soft.divergence((x, matrix, torch.zeros(vocab)), (x.detach(), matrix, torch.ones(vocab)), "kl").sum().backward()
    assert biggest <= loss.CHUNK_BYTES < tokens * vocab * 4

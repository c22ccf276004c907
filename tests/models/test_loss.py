import weakref

import pytest
import torch

from rllc.models import loss


def dense(x, weight, bias, target):
    logits = x @ weight + (bias if bias.dim() == 1 else bias[:, None])
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none").view(
        target.shape
    )


@pytest.mark.parametrize("weight_chains", [False, True])
@pytest.mark.parametrize("bias_chains", [False, True])
def test_losses_and_all_gradients_equal_the_dense_ones(weight_chains, bias_chains, monkeypatch):
    monkeypatch.setattr(loss, "CHUNK_TOKENS", 16)
    monkeypatch.setattr(loss, "CHUNK_BYTES", 16 * 7 * 8)  # 16 tokens of 7 logits: several chunks, the last one short
    generator = torch.Generator().manual_seed(0)
    make = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()  # noqa: E731
    x = make(3, 50, 4)
    weight = make(3, 4, 7) if weight_chains else make(4, 7)
    bias = make(3, 7) if bias_chains else make(7)
    target = torch.randint(7, (3, 50), generator=generator)
    slope = torch.randn(3, 50, generator=generator, dtype=torch.float64)
    got, expected = loss.cross_entropy(x, weight, bias, target), dense(x, weight, bias, target)
    assert torch.allclose(got, expected, atol=1e-12)
    for mine, theirs in zip(
        *(torch.autograd.grad(value, (x, weight, bias), slope) for value in (got, expected)), strict=True
    ):
        assert torch.allclose(mine, theirs, atol=1e-12)


def test_extreme_logits_stay_finite():
    x = torch.tensor([[[1000.0], [-1000.0]]])
    got = loss.cross_entropy(x, torch.tensor([[1.0, -1.0]]), torch.zeros(2), torch.tensor([[0, 0]]))
    assert got.tolist() == [[0.0, pytest.approx(2000.0, rel=1e-6)]]


class Watch(torch.utils._python_dispatch.TorchDispatchMode):
    """The most bytes of results that were alive at once."""

    def __init__(self):
        super().__init__()
        self.peak, self._alive = 0, {}

    def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for array in out if isinstance(out, tuple | list) else [out]:
            if isinstance(array, torch.Tensor):
                storage = array.untyped_storage()
                self._alive[storage.data_ptr()] = (weakref.ref(array), storage.nbytes())
        self._alive = {at: kept for at, kept in self._alive.items() if kept[0]() is not None}
        self.peak = max(self.peak, sum(size for _, size in self._alive.values()))
        return out


@pytest.mark.parametrize("live", ["x", "unembedding"])
@pytest.mark.parametrize(("tokens", "vocab"), [(1300, 5000), (400, 50_304), (400, 151_000)])
def test_logits_are_never_whole(tokens, vocab, live, monkeypatch):
    monkeypatch.setattr(loss, "KEPT_BYTES", loss.CHUNK_BYTES)
    x, weight = torch.zeros(1, tokens, 2), torch.zeros(2, vocab)
    (x if live == "x" else weight).requires_grad_()
    with Watch() as watch:
        loss.cross_entropy(x, weight, torch.zeros(vocab), torch.zeros(1, tokens, dtype=torch.long)).sum().backward()
    chunk = 4 * loss.chunk_tokens(vocab, torch.float32) * vocab
    assert 3 * chunk < tokens * vocab * 4
    assert chunk <= watch.peak <= 2.2 * chunk  # the logits of a chunk and what becomes of them, beside small things


def test_probabilities_computed_again_give_the_same_gradients(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (torch.randn(*shape, generator=generator) for shape in ((1, 600, 8), (8, 50), (50,)))
    target = torch.randint(50, (1, 600), generator=generator)
    monkeypatch.setattr(loss, "CHUNK_BYTES", 0)
    found = []
    for limit in (loss.KEPT_BYTES, 0):
        monkeypatch.setattr(loss, "KEPT_BYTES", limit)
        live = [array.clone().requires_grad_() for array in (x, weight, bias)]
        slope = torch.randn(1, 600, generator=torch.Generator().manual_seed(1))
        found.append(torch.autograd.grad(loss.cross_entropy(*live, target), live, slope))
    assert all(torch.equal(kept, again) for kept, again in zip(*found, strict=True))

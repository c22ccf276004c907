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


def test_logits_are_never_whole():
    tokens, vocab = 4096, 5000
    x, weight = torch.zeros(1, tokens, 2, requires_grad=True), torch.zeros(2, vocab)
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
        loss.cross_entropy(x, weight, torch.zeros(vocab), torch.zeros(1, tokens, dtype=torch.long)).sum().backward()
    assert biggest <= loss.CHUNK_BYTES < tokens * vocab * 4

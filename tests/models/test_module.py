import copy
import dataclasses
import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

import rllc
from rllc.backends import torch as backend
from rllc.mistake import Mistake
from rllc.models import module as modules

SAMPLER = rllc.Sampler(lr=1e-4, nbeta=100, gamma=500, chains=4, draws=150, burn_in=50, batch=16)
SHORT = dataclasses.replace(SAMPLER, draws=3, burn_in=0)


class Net(nn.Module):
    """Two convolutions, a batch norm, dropout and a linear layer on 8 × 8 pictures."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, stride=2)
        self.norm = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 6, 2)
        self.drop = nn.Dropout(0.1)
        self.fc = nn.Linear(24, 10)

    def forward(self, x):
        hidden = F.relu(self.norm(self.conv1(x)))
        return self.fc(self.drop(F.relu(self.conv2(hidden)).flatten(1)))


def cross_entropy(module, batch):
    return F.cross_entropy(module(batch[0]), batch[1], reduction="none")


def mean(module, batch):
    return cross_entropy(module, batch).mean()


@pytest.fixture(scope="module")
def digits():
    found = load_digits()
    return torch.tensor(found.images[:600, None] / 16, dtype=torch.float32), torch.tensor(found.target[:600])


@pytest.fixture(scope="module")
def trained(digits):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = Net()
        optimiser = torch.optim.Adam(net.parameters(), 1e-2)
        for rows in torch.randint(600, (250, 64)):
            optimiser.zero_grad()
            mean(net, [array[rows] for array in digits]).backward()
            optimiser.step()
        net.zero_grad()
    return net.eval()


def part_of(net, loss, data, part, dtype="float64", chains=3, batch=5):
    return modules.ModulePart(net, loss, data, part, chains=chains, batch=batch, dtype=dtype)


@pytest.mark.parametrize("part", ["conv1.*", "fc.weight", "norm+conv2.bias", "!conv*", "*"])
@pytest.mark.parametrize("loss", [cross_entropy, mean])
def test_chains_without_noise_are_gradient_descent_on_a_copy(trained, digits, part, loss):
    """The oracle: a copy of the module, its own autograd, one chain and one parameter after the other."""
    sampler = dataclasses.replace(SAMPLER, chains=3, draws=8, burn_in=0, batch=5)
    rows_CSB = np.random.default_rng(0).integers(600, size=(3, 8, 5))
    potential = part_of(trained, loss, digits, part)
    trace = backend.run(potential, sampler, rows_CSB, noise_seeds=[0, 1, 2], noise=0.0)
    images, labels = digits[0].double(), digits[1]
    for chain in range(3):
        net = copy.deepcopy(trained).double()
        still = copy.deepcopy(net)
        moving = [array for name, array in net.named_parameters() if name in potential.names]
        start = [array.detach().clone() for array in moving]
        for step in range(8):
            rows = rows_CSB[chain, step]
            value = F.cross_entropy(net(images[rows]), labels[rows])
            excess = value - F.cross_entropy(still(images[rows]), labels[rows])
            assert trace.excess_CS[chain, step] == pytest.approx(excess.item(), abs=1e-9)
            grads = torch.autograd.grad(value, moving)
            with torch.no_grad():
                for array, grad, first in zip(moving, grads, start, strict=True):
                    array -= sampler.lr / 2 * (sampler.nbeta * grad + sampler.gamma * (array - first))
        end = np.concatenate([array.detach().numpy().ravel() for array in moving])
        assert trace.end_CD[chain] == pytest.approx(end, abs=1e-9)


@pytest.mark.parametrize("loss", [cross_entropy, mean])
def test_chains_at_once_and_in_turn_are_the_same(trained, digits, loss):
    potential = part_of(trained, loss, digits, "conv1+fc")
    assert potential.batched
    generator = torch.Generator().manual_seed(0)
    live = [a + 0.1 * torch.randn(3, *a.shape, generator=generator, dtype=a.dtype) for a in potential.start]
    rows = torch.randint(600, (3, 5), generator=generator)
    found = []
    for batched in (True, False):
        potential.batched = batched
        moved = [array.clone().requires_grad_() for array in live]
        value = potential.losses(moved, rows)
        found.append([value, *torch.autograd.grad(value.sum(), moved)])
    for together, in_turn in zip(*found, strict=True):
        assert torch.allclose(together, in_turn, rtol=0, atol=1e-12)


def test_what_vmap_refuses_runs_in_turn(digits):
    class Branching(nn.Linear):
        def forward(self, x):
            return super().forward(x) if x.sum() > 0 else super().forward(-x)

    net = Branching(64, 10)
    potential = part_of(net, cross_entropy, (digits[0].flatten(1), digits[1]), "*")
    assert not potential.batched
    plain = part_of(nn.Linear(64, 10), cross_entropy, (digits[0].flatten(1), digits[1]), "*")
    live = [array.expand(3, *array.shape) for array in potential.start]
    rows = torch.arange(15).view(3, 5)
    assert torch.allclose(potential.losses(live, rows), plain.losses(live, rows), atol=1e-12)


@pytest.mark.parametrize("loss", [cross_entropy, mean])
def test_at_the_start_every_minibatch_gives_its_reference(trained, digits, loss):
    potential = part_of(trained, loss, digits, "conv2", dtype="float32")
    rows = torch.from_numpy(np.random.default_rng(0).integers(600, size=(6, 3, 5)))
    for rows_CB in [*rows, *rows]:
        live = [array.expand(3, *array.shape) for array in potential.start]
        excess = potential.losses(live, rows_CB) - potential.reference(rows_CB)
        assert excess.abs().max() <= 4 * torch.finfo(torch.float32).eps
        assert excess.shape == (3, 1 if loss is mean else 5)


@pytest.mark.slow
def test_the_whole_model_has_more_than_its_parts(trained, digits):
    """Two errors of the difference are below the gap; training's last bits, and with them the noise, may vary."""
    many = dataclasses.replace(SAMPLER, chains=48)
    found = {
        part: rllc.estimate_module(trained, cross_entropy, digits, part=part, sampler=many)
        for part in ("conv1.*", "conv2", "fc.weight", "*")
    }
    whole = found.pop("*")
    for estimate in found.values():
        assert estimate.value > 3 * estimate.error > 0
        assert whole.value - estimate.value > 2 * math.hypot(whole.error, estimate.error)
    assert found["fc.weight"].stats["weights"] == 240
    assert found["conv1.*"].task.loss.endswith("test_module:cross_entropy")


def test_the_module_is_left_as_it_was(trained, digits):
    net = copy.deepcopy(trained)
    net.conv1.train()
    net.fc.requires_grad_(False)
    before = copy.deepcopy(net.state_dict())
    modes = [each.training for each in net.modules()]
    flags = [array.requires_grad for array in net.parameters()]
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    rllc.estimate_module(net, cross_entropy, digits, part="fc+conv1.bias", sampler=SHORT)
    assert all(torch.equal(before[name], array) for name, array in net.state_dict().items())
    assert [each.training for each in net.modules()] == modes
    assert [array.requires_grad for array in net.parameters()] == flags
    assert all(array.grad is None for array in net.parameters())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_mode_is_restored_after_a_mistake(trained, digits):
    net = copy.deepcopy(trained)
    net.conv2.train()
    with pytest.raises(Mistake):
        rllc.estimate_module(net, lambda m, b: m(b[0]), digits, sampler=SHORT)
    assert net.conv2.training
    assert not net.conv1.training


def test_dropout_in_train_mode_is_said_and_switched_off(trained, digits):
    net = copy.deepcopy(trained)
    still = rllc.estimate_module(net, cross_entropy, digits, part="fc", sampler=SHORT)
    net.drop.train()
    with pytest.warns(UserWarning, match="in train mode; the chains run in eval mode") as said:
        again = rllc.estimate_module(net, cross_entropy, digits, part="fc", sampler=SHORT)
    assert len(said) == 1
    assert said[0].filename == __file__
    assert np.array_equal(again.loss_CS, still.loss_CS)


def test_a_half_precision_module_moves_in_float32(digits):
    torch.manual_seed(0)
    half = nn.Linear(64, 10).bfloat16()
    data = (digits[0].flatten(1).bfloat16(), digits[1])
    sampler = dataclasses.replace(SHORT, lr=1e-9)  # steps of 3e-5, far below the spacing of bfloat16 here
    got = rllc.estimate_module(half, cross_entropy, data, part="weight", sampler=sampler)
    potential = part_of(half, cross_entropy, data, "weight", dtype="float32")
    assert potential.start[0].dtype == torch.float32
    assert got.stats["away"] == pytest.approx(math.sqrt(sampler.lr), rel=0.5)
    assert half.weight.dtype == torch.bfloat16


def test_a_frozen_module_is_sampled_like_a_free_one(trained, digits):
    free = rllc.estimate_module(trained, cross_entropy, digits, part="fc", sampler=SHORT)
    frozen = rllc.estimate_module(copy.deepcopy(trained).requires_grad_(False), cross_entropy, digits, part="fc",
                                  sampler=SHORT)  # fmt: skip
    assert np.array_equal(free.loss_CS, frozen.loss_CS)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.inner = nn.Linear(4, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.inner(self.embed(ids)))


TOKENS = torch.arange(14).view(7, 2) % 7


def next_token(module, ids):
    return F.cross_entropy(module(ids[:, 0]), ids[:, 1], reduction="none")


@pytest.mark.parametrize("part", ["head.weight", "embed.weight", "!inner"])
def test_a_tied_weight_is_one_array_under_each_of_its_names(part):
    torch.manual_seed(0)
    net = Tied()
    with pytest.warns(UserWarning, match=r"head.weight and embed.weight are one tied array") as said:
        potential = part_of(net, next_token, TOKENS, part, batch=3)
    assert len(said) == 1
    assert potential.names == ["embed.weight"]
    moved = potential.start[0] + 0.1
    other = copy.deepcopy(net).double()
    with torch.no_grad():
        other.embed.weight.copy_(moved)
        expected = next_token(other, TOKENS[:3])
    got = potential.losses([moved.expand(3, 7, 4)], torch.arange(3).expand(3, 3))
    assert torch.allclose(got, expected.expand(3, 3), atol=1e-12)


def test_the_complement_of_a_tied_weight_leaves_it_out():
    assert part_of(Tied(), next_token, TOKENS, "!head.weight").names == ["inner.weight", "inner.bias"]


def test_parameters_without_influence_are_accepted_beside_others(digits):
    net = nn.ModuleDict({"used": nn.Linear(64, 10), "idle": nn.Linear(3, 3)})
    loss = lambda m, b: F.cross_entropy(m["used"](b[0].flatten(1)), b[1], reduction="none")  # noqa: E731
    got = rllc.estimate_module(net, loss, digits, sampler=SHORT)
    assert got.stats["weights"] == 650 + 12
    assert math.isfinite(got.value)
    with pytest.raises(Mistake, match=r"loss: it does not depend on idle.weight, idle.bias; it must use the module"):
        rllc.estimate_module(net, loss, digits, part="idle", sampler=SHORT)


@pytest.mark.parametrize(
    ("part", "count"), [("conv*+norm+fc", 8), ("conv1+!conv1", 8), ("*.weight+*.bias", 8), ("?*", 8)]
)
def test_the_whole_model_by_accident_is_said_once(trained, digits, part, count):
    with pytest.warns(UserWarning, match=f"{re.escape(repr(part))} is the whole model, all {count} arrays") as said:
        part_of(trained, cross_entropy, digits, part)
    assert len(said) == 1
    part_of(trained, cross_entropy, digits, "*")


def broken(net):
    net = copy.deepcopy(net)
    with torch.no_grad():
        net.conv2.bias[1] = math.inf
    return net


MISTAKES = {
    "part: 'conv3' matches no parameter; nearest: conv2, conv1; legal: names conv1.weight, .*fc.bias": {
        "part": "conv3"
    },
    r"loss: \(16, 10\) is neither a scalar nor one number a sample, \(16,\)": {"loss": lambda m, b: m(b[0])},
    "loss: float is neither": {"loss": lambda _m, _b: 1.0},
    "loss: torch.float64 is not torch.float32": {"loss": lambda m, b: cross_entropy(m, b).double()},
    "gave two different values": {"loss": lambda m, b: cross_entropy(m, b) * torch.rand(())},
    "loss: it does not depend on conv1.weight": {"loss": lambda _m, b: b[0].mean((1, 2, 3))},
    "module: conv2.bias holds a number that is not finite": {"module": broken},
    "data: 10 samples are fewer than a minibatch, sampler.batch 16": {"data": lambda x, y: (x[:10], y[:10])},
    "data: 600, 599 samples are not equally many": {"data": lambda x, y: (x, y[:-1])},
    "data: it must be a tensor, or several": {"data": lambda x, _y: (x, 3)},
    "sampler.backend: jax cannot be used with modules; legal: torch": {
        "sampler": dataclasses.replace(SHORT, backend="jax")
    },
}


@pytest.mark.parametrize("sentence", MISTAKES)
def test_mistakes_are_one_sentence(trained, digits, sentence):
    change = MISTAKES[sentence]
    net = change["module"](trained) if "module" in change else trained
    data = change["data"](*digits) if "data" in change else digits
    with pytest.raises(Mistake, match=sentence):
        rllc.estimate_module(
            net, change.get("loss", cross_entropy), data, part=change.get("part", "*"),
            sampler=change.get("sampler", SHORT),
        )  # fmt: skip


def test_a_sum_and_what_is_not_finite_are_no_losses():
    module, data = nn.Linear(3, 1), torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    options = {"part": "*", "chains": 2, "batch": 4}
    with pytest.raises(Mistake, match=r"^loss: the same samples twice give another value; a scalar must be the mean"):
        modules.ModulePart(module, lambda module, x: module(x).square().sum(), data, **options)
    data[:] = math.nan
    with pytest.raises(Mistake, match=r"^loss: it is not finite at the weights given"):
        modules.ModulePart(module, lambda module, x: module(x).square().mean(), data, **options)

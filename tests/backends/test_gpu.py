"""What only a GPU can show: the same numbers there as on the CPU, and no wait for it in the loop."""

import dataclasses
import sys
from pathlib import Path

import pytest
import torch

from rllc.metrics import llc
from rllc.models.pool import Pool
from rllc.task import Sampler, Task
from rllc.zoo import folder

sys.path.append(str(Path(__file__).parents[1] / "fixtures" / "tiny_attn"))
import tiny_attn

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
SAMPLER = Sampler(lr=1e-3, nbeta=30.0, gamma=200.0, chains=16, draws=100, burn_in=10, batch=8)


def measured(part: str, sampler: Sampler, monkeypatch: pytest.MonkeyPatch, *, cuda: bool):
    model, weights = folder.load(tiny_attn.path(1600))
    with monkeypatch.context() as patch:
        if not cuda:
            patch.setattr(torch.cuda, "is_available", lambda: False)
        pool = Pool.of(weights, model, tiny_attn.rows("code")[:256], sampler)
    assert pool.tokens_NL.is_cuda == cuda
    return llc.measure(Task("tiny", "", 1600, part, "code", "", "llc", 0, sampler), pool)


@pytest.mark.parametrize("part", ["L0H0", "L1H4", "L1*"])
@pytest.mark.parametrize("products", ["exact", "bf16_unembed"])
def test_the_estimate_is_that_of_the_cpu(part, products, monkeypatch):
    """The two draw other noise, so that they agree within the error of both."""
    sampler = dataclasses.replace(SAMPLER, products=products)
    there, here = (measured(part, sampler, monkeypatch, cuda=cuda) for cuda in (True, False))
    assert there.health == here.health == "ok"
    assert abs(there.value - here.value) < 4 * (there.error**2 + here.error**2) ** 0.5


def test_a_chain_that_cannot_move_gives_exactly_zero(monkeypatch):
    estimate = measured("L1H4", dataclasses.replace(SAMPLER, lr=0.0, draws=5), monkeypatch, cuda=True)
    assert estimate.value == 0.0
    assert not estimate.loss_CS.any()

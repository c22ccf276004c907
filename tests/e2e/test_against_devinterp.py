import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rllc.backends import torch as backend
from rllc.metrics import llc
from rllc.models import decoder
from rllc.models.pool import Pool
from rllc.models.restriction import restrict
from rllc.task import Sampler, Task
from rllc.zoo import folder

sys.path += [str(Path(__file__).parents[1] / "fixtures" / "tiny_attn"), str(Path(__file__).parents[2] / "bench")]
import tiny_attn
from plain_module import Plain, token_losses

SAMPLER = Sampler(
    lr=1e-3, nbeta=30.0, gamma=200.0, chains=24, draws=40, burn_in=0, batch=8, batches="shared", reference="batches"
)
ROWS = 512


@pytest.fixture(scope="module")
def trained():
    """The small trained transformer on code: its pool, and the same as an ordinary module."""
    model, weights = folder.load(tiny_attn.path(1600))
    tokens_NL = torch.from_numpy(np.unique(tiny_attn.rows("code")[:ROWS], axis=0))
    return Pool(weights, model, tokens_NL, chains=SAMPLER.chains, batch=SAMPLER.batch), Plain(weights, model)


def task(part, sampler=SAMPLER):
    return Task("tiny", "", 1600, part, "code", "", "llc", 0, sampler)


def test_the_plain_module_has_the_same_losses(trained):
    pool, module = trained
    tokens_BL = pool.tokens_NL[:64]
    with torch.no_grad():
        ours_B = decoder.forward(pool.weights, tokens_BL[None], pool.model)[0]
        assert torch.allclose(ours_B, token_losses(module, tokens_BL).mean(1), atol=1e-5)


def by_devinterp(module, pool, layer, head, path):
    """Per-chain estimates of devinterp with ℓ(w*) on the very rows it drew, and these rows (C, S, B, L)."""
    from devinterp.slt.sampling import sample

    store = sample(
        module,
        [{"input_ids": row} for row in pool.tokens_NL],
        {},
        lr=SAMPLER.lr,
        n_beta=SAMPLER.nbeta,
        localization=SAMPLER.gamma,
        param_masks=module.masks(layer, head),
        loss_fn=token_losses,
        num_chains=SAMPLER.chains,
        num_draws=SAMPLER.draws,
        batch_size=SAMPLER.batch,
        num_init_loss_batches=1,
        device="cpu",
        output_path=path,
    )
    tokens_CSBL = store["sampling_input_ids_micro"].to_numpy()
    loss_CS = store["sampling_loss_micro"].to_numpy().astype(np.float64).mean((2, 3))
    with torch.no_grad():  # chain 0 stands for all: they share their rows
        paired_S = [token_losses(module, torch.from_numpy(rows)).double().mean().item() for rows in tokens_CSBL[0]]
    return SAMPLER.nbeta * (loss_CS - paired_S).mean(1), tokens_CSBL


def places(tokens_CSBL, pool):
    """Where in the pool the rows are, (C, S, B)."""
    place = {row.tobytes(): n for n, row in enumerate(pool.tokens_NL.numpy())}
    flat = tokens_CSBL.reshape(-1, tokens_CSBL.shape[-1])
    return np.array([place[row.tobytes()] for row in flat]).reshape(tokens_CSBL.shape[:3])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # devinterp and what it imports warn of themselves
@pytest.mark.parametrize(("layer", "head"), [(0, 0), (1, 4)])
def test_a_head_agrees_with_devinterp_at_equal_settings(layer, head, trained, tmp_path, monkeypatch):
    """Both run on the same minibatches, so that only the Langevin noise of the two differs."""
    pytest.importorskip("devinterp", reason="devinterp is not installed")
    monkeypatch.setenv("TQDM_DISABLE", "1")
    pool, module = trained
    theirs_C, tokens_CSBL = by_devinterp(module, pool, layer, head, tmp_path / "samples.zarr")
    assert (tokens_CSBL == tokens_CSBL[:1]).all()
    own = task(f"L{layer}H{head}")
    trace = backend.run(
        restrict(pool, own.part),
        SAMPLER,
        places(tokens_CSBL, pool),
        noise_seeds=llc.noise_seeds(own, range(SAMPLER.chains)),
    )
    ours = llc.estimate(own, trace, trace.excess_CS, 0.0, seconds=0.0)
    theirs, their_error = theirs_C.mean(), theirs_C.std(ddof=1) / np.sqrt(len(theirs_C))
    assert ours.error < 0.05 * ours.value
    assert their_error < 0.05 * theirs
    assert abs(ours.value - theirs) < 3 * np.hypot(ours.error, their_error)


@pytest.mark.parametrize("part", ["L0H0", "L0H5", "L1H4", "L1H6.q", "L0*", "*.v", "!L0*", "unembed", "embed+pos", "*"])
@pytest.mark.parametrize("batches", ["own", "shared"])
def test_a_chain_that_cannot_move_gives_exactly_zero(part, batches, trained):
    whole, _ = trained
    still = replace(SAMPLER, lr=0.0, chains=3, draws=4, reference="paired", batches=batches)
    pool = Pool(whole.weights, whole.model, whole.tokens_NL[:70], chains=still.chains, batch=still.batch)
    estimate = llc.measure(task(part, still), pool)
    assert estimate.value == 0.0
    assert estimate.error == 0.0
    assert not estimate.loss_CS.any()

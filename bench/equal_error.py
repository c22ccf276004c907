"""What the same seed-to-seed error costs in rllc and in devinterp 2.0.1, on heads of a trained model.

    TQDM_DISABLE=1 python bench/equal_error.py [--seeds 32] [--draws 200] [--heads L0H0 L1H4] [--threads 1]
    … --checkpoint runs/<run>/checkpoints/step_0000400.safetensors --rows data/<dataset>.npy

The default is the trained test model, of the demo's shape.

Both sides run 4 chains at the paper's settings (lr 1e-3, nbeta 30, gamma 200) on 8 rows a step, once for each seed, and
the spread over seeds is what a user would see. rllc takes its reference on the rows of each minibatch; devinterp takes
it on separate batches, so its estimate is tried with 16 to 4,096 of them and the cheapest is compared. The error of a
mean falls with the root of the work, so the work for equal error is that of a run times its variance:

    ratio = (variance · cost of devinterp) / (variance · cost of rllc)

Cost is told twice: in forward passes over a row (a backward pass counts as two, rllc's reference as one), and in CPU
seconds. The interval is that of the ratio of two variances (F with seeds − 1 degrees of freedom each, 95 %).
"""

import argparse
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from plain_module import Plain, token_losses
from scipy import stats

from rllc.metrics import llc
from rllc.models.pool import Pool
from rllc.task import Sampler, Task
from rllc.zoo import folder

sys.path.append(str(Path(__file__).parents[1] / "tests" / "fixtures" / "tiny_attn"))
import tiny_attn

SAMPLER = Sampler(lr=1e-3, nbeta=30.0, gamma=200.0, chains=4, draws=200, burn_in=0, batch=8)
INITS = (16, 64, 256, 1024, 4096)


def rllc(pool: Pool, part: str, sampler: Sampler, seeds: int) -> tuple[np.ndarray, float]:
    """Estimates of all seeds, and CPU seconds of one."""
    llc.measure(Task("bench", "", 0, part, "code", "", "llc", -1, replace(sampler, draws=4)), pool)  # what is kept
    began = time.process_time()
    values = [
        llc.measure(Task("bench", "", 0, part, "code", "", "llc", seed, sampler), pool).value for seed in range(seeds)
    ]
    return np.array(values), (time.process_time() - began) / seeds


def devinterp(module: Plain, pool: Pool, part: str, sampler: Sampler, seed: int) -> tuple[float, float]:
    """Mean sampling loss of one seed (nats), and CPU seconds with one reference batch."""
    from devinterp.slt.sampling import sample

    began = time.process_time()
    with tempfile.TemporaryDirectory() as path:
        store = sample(
            module, [{"input_ids": row} for row in pool.tokens_NL], {}, lr=sampler.lr, n_beta=sampler.nbeta,
            localization=sampler.gamma, param_masks=module.masks(int(part[1]), int(part[3])),
            loss_fn=token_losses, num_chains=sampler.chains, num_draws=sampler.draws, batch_size=sampler.batch,
            num_init_loss_batches=1, init_seed=1000 * seed, device="cpu", output_path=Path(path) / "samples.zarr",
        )  # fmt: skip
        loss = float(store["sampling_loss"].to_numpy().astype(np.float64).mean())
    return loss, time.process_time() - began


def init_losses(row_loss_N: np.ndarray, batches: int, batch: int, seeds: int) -> np.ndarray:
    """ℓ(w*) from so many separate batches, for each seed."""
    rng = np.random.default_rng(batches)
    return np.array([row_loss_N[rng.integers(len(row_loss_N), size=batches * batch)].mean() for _ in range(seeds)])


def forward_seconds(module: Plain, tokens_BL: torch.Tensor) -> float:
    with torch.no_grad():
        began = time.process_time()
        for _ in range(20):
            token_losses(module, tokens_BL)
        return (time.process_time() - began) / 20


def compare(part: str, pool: Pool, module: Plain, options: argparse.Namespace) -> None:
    """Print the lines of one head."""
    sampler = replace(SAMPLER, draws=options.draws)
    steps, seeds = sampler.chains * sampler.draws, options.seeds
    ours, our_seconds = rllc(pool, part, sampler, seeds)
    losses, their_seconds = map(
        np.array, zip(*(devinterp(module, pool, part, sampler, s) for s in range(seeds)), strict=True)
    )
    row_loss_N = pool.reference(torch.arange(len(pool.tokens_NL))[None])[0].double().numpy()
    forward = forward_seconds(module, pool.tokens_NL[: sampler.batch])
    print(f"{part}: rllc {ours.mean():.4f}, spread {ours.std(ddof=1):.4f}, {our_seconds:.2f} CPU s", flush=True)
    low, high = stats.f.ppf([0.975, 0.025], seeds - 1, seeds - 1)
    for count in INITS:
        theirs = sampler.nbeta * (losses - init_losses(row_loss_N, count, sampler.batch, seeds))
        variances = theirs.var(ddof=1) / ours.var(ddof=1)
        passes = (3 * steps + sampler.chains * count) / (4 * steps)  # they repeat the reference for each chain
        seconds = (their_seconds.mean() + forward * sampler.chains * count) / our_seconds
        print(
            f"    devinterp, {count:4} reference batches: {theirs.mean():7.4f}, spread {theirs.std(ddof=1):.4f}; "
            f"work for equal error: {variances * passes:6.0f} × passes "
            f"({variances * passes / low:.0f} to {variances * passes / high:.0f}), {variances * seconds:6.0f} × CPU",
            flush=True,
        )


def main() -> None:
    """Compare head by head."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--heads", nargs="+", default=["L0H0", "L1H4"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--rows", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # devinterp's own
    torch.set_num_threads(options.threads)
    model, weights = folder.load(options.checkpoint or tiny_attn.path(1600))
    tokens = np.load(options.rows, allow_pickle=False) if options.rows else tiny_attn.rows("code")
    tokens_NL = torch.from_numpy(np.unique(tokens, axis=0).astype(np.int64))
    pool = Pool(weights, model, tokens_NL, chains=SAMPLER.chains, batch=SAMPLER.batch)
    print(f"{len(tokens_NL)} rows; 4 chains × {options.draws} draws × 8 rows; {options.seeds} seeds")
    for part in options.heads:
        compare(part, pool, Plain(weights, model), options)


if __name__ == "__main__":
    main()

"""One checkpoint, every head, two datasets: rllc beside devinterp 2.0.1's documented call, set-up on both sides.

    TQDM_DISABLE=1 python bench/whole_sweep.py [--model demo paper] [--draws 40] [--per-layer 8] [--side torch]

Both run 4 chains on 8 rows a step at the same settings. rllc: the pools of two datasets and `metrics.llc.measure` for
each head, or for heads of the last layer together, as a worker does it. devinterp: `sample` as its documentation calls
it, with one observable and 32 reference batches, for each head and dataset. With `--per-layer` below the number of
heads its time is that of so many heads of each layer, multiplied up; rllc always does all of them.
"""

import argparse
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from chain_cost import MODELS, OURS
from plain_module import Plain, token_losses

from rllc.metrics import llc
from rllc.models import decoder, sharing
from rllc.models.pool import Pool
from rllc.task import Sampler, Task


def heads(layers: int, per_layer: int) -> list[tuple[int, int]]:
    return [(layer, head) for layer in range(layers) for head in range(per_layer)]


def rllc(name: str, datasets: list[torch.Tensor], sampler: Sampler) -> float:
    """Seconds for all heads on all datasets."""
    model = MODELS[name][0]
    weights = decoder.init(model, seed=0)
    began = time.perf_counter()
    for tokens_NL in datasets:
        pool = Pool.of(weights, model, tokens_NL.numpy(), sampler)
        tasks = [Task("bench", "", 0, f"L{layer}H{head}", "random", "", "llc", 0, sampler)
                 for layer, head in heads(model.n_layers, model.n_heads)]  # fmt: skip
        last = sharing.together(model, sampler, len(tokens_NL))
        alone = len(tasks) if last == 1 else len(tasks) - model.n_heads
        for task in tasks[:alone]:
            llc.measure(task, pool)
        for start in range(alone, len(tasks), last):
            llc.measure_together(tasks[start : start + last], pool)
    return time.perf_counter() - began


def devinterp(name: str, datasets: list[torch.Tensor], sampler: Sampler, per_layer: int) -> float:
    """Seconds for all heads on all datasets, from `per_layer` heads of each layer."""
    from datasets import Dataset
    from devinterp.slt.sampling import sample

    model = MODELS[name][0]
    module = Plain(decoder.init(model, seed=0), model)
    began = time.perf_counter()
    for tokens_NL in datasets:
        rows = Dataset.from_dict({"input_ids": tokens_NL.tolist()}).with_format("torch")
        for layer, head in heads(model.n_layers, per_layer):
            with tempfile.TemporaryDirectory() as path:
                sample(
                    module, rows, {"train": rows}, lr=sampler.lr, n_beta=sampler.nbeta, localization=sampler.gamma,
                    param_masks=module.masks(layer, head), loss_fn=token_losses, num_chains=sampler.chains,
                    num_draws=sampler.draws, batch_size=sampler.batch, device="cpu",
                    output_path=Path(path) / "samples.zarr",
                )  # fmt: skip
    return (time.perf_counter() - began) * model.n_heads / per_layer


def main() -> None:
    """Print one line a model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=["demo", "paper"])
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--per-layer", type=int, default=8, help="heads of each layer that devinterp runs")
    parser.add_argument("--side", choices=list(OURS), default="torch")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # devinterp's own
    torch.set_num_threads(options.threads)
    for name in options.model:
        model, sampler = MODELS[name]
        sampler = replace(sampler, draws=options.draws, **OURS[options.side])
        rng = np.random.default_rng(0)
        datasets = [torch.from_numpy(rng.integers(model.d_vocab, size=(options.rows, model.n_ctx))) for _ in range(2)]
        ours = rllc(name, datasets, sampler)
        theirs = devinterp(name, datasets, sampler, options.per_layer)
        print(f"{name}: rllc {options.side} {ours:.1f} s, devinterp {theirs:.1f} s, {theirs / ours:.1f} ×", flush=True)


if __name__ == "__main__":
    main()

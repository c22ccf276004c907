"""What a step of a chain costs on torch and on jax, measured in turn in one process.

    XLA_FLAGS=--xla_cpu_multi_thread_eigen=false taskset -c 0 \\
        python bench/jax_cost.py [--model demo paper] [--rounds 5] [--draws N] [--rows 1024]

Both sides get the same weights, head, rows and settings, as `chain_cost.py` has them. A number is the median over
rounds of the time of `backends.<side>.run`, in ms per chain × draw; the tables that all heads of a layer share are made
before, and so are the losses at w*. "compile" is by how much jax's first call was longer than a second one that also
finds the losses at w* (once a machine: compiled programs are kept on disk, which is switched off here).
"""

import argparse
import sys
import time
from dataclasses import replace

import jax
import numpy as np
import torch

from rllc.backends import jax as jax_backend
from rllc.backends import torch as torch_backend
from rllc.config import Model
from rllc.models import attention, jax_restriction, restriction
from rllc.models.pool import Pool
from rllc.task import Sampler

SETTINGS = Sampler(lr=1e-3, nbeta=30.0, gamma=200.0, chains=4, draws=40, burn_in=0, batch=8)
MODELS = {
    "demo": (Model(2, 8, 64, 8, 64, 512, "shortformer"), SETTINGS),
    "short": (Model(2, 8, 64, 8, 64, 512, "shortformer"), replace(SETTINGS, chains=8, batch=1, draws=80)),
    "paper": (Model(2, 8, 256, 32, 256, 5000, "shortformer"), replace(SETTINGS, draws=8)),
}


def compare(name: str, part: str, pool: Pool, sampler: Sampler, rounds: int) -> str:
    rows_CSB = np.random.default_rng(0).integers(
        len(pool.tokens_NL), size=(sampler.chains, sampler.steps, sampler.batch)
    )
    seeds = list(range(sampler.chains))
    sides = {
        "torch": (torch_backend.run, restriction.restrict(pool, part)),
        "jax": (jax_backend.run, jax_restriction.restrict(pool, part, sampler.products)),
    }
    seconds: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    compiling = []
    for _ in range(2):
        began = time.perf_counter()
        jax_backend.run(replace(sides["jax"][1], reference={}), sampler, rows_CSB, noise_seeds=seeds)
        compiling.append(time.perf_counter() - began)
    for turn in range(rounds + 1):
        for side in sides if turn % 2 else reversed(sides):
            run, potential = sides[side]
            began = time.perf_counter(), time.process_time()
            run(potential, sampler, rows_CSB, noise_seeds=seeds)
            seconds[side].append((time.perf_counter() - began[0], time.process_time() - began[1]))
    unit = 1e3 / (sampler.chains * sampler.steps)
    wall, cpu = (
        {side: unit * float(np.median([each[clock] for each in found[1:]])) for side, found in seconds.items()}
        for clock in (0, 1)
    )
    return (
        f"{name:5} | {part} | {wall['torch']:6.2f} {cpu['torch']:6.2f} | {wall['jax']:6.2f} {cpu['jax']:6.2f} | "
        f"{wall['torch'] / wall['jax']:5.2f} {cpu['torch'] / cpu['jax']:5.2f} | {compiling[0] - compiling[1]:5.1f}"
    )


def main() -> None:
    """Print one line a head."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1024, help="of the pool")
    parser.add_argument("--draws", type=int, help="of each chain")
    parser.add_argument("--products", default="exact", help="of the jax side")
    parser.add_argument("--parts", nargs="+", default=["L0H0", "L1H0"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    jax.config.update("jax_enable_compilation_cache", False)
    print("model | head | torch wall cpu | jax wall cpu  | ratio wall cpu | compile (s)")
    for name in options.model:
        model, sampler = MODELS[name]
        sampler = replace(sampler, products=options.products, draws=options.draws or sampler.draws)
        tokens_NL = np.random.default_rng(0).integers(model.d_vocab, size=(options.rows, model.n_ctx))
        weights = attention.init(model, seed=0)
        pool = Pool(weights, model, torch.from_numpy(tokens_NL), chains=sampler.chains, batch=sampler.batch)
        for part in options.parts:
            print(compare(name, part, pool, sampler, options.rounds), flush=True)


if __name__ == "__main__":
    sys.exit(main())

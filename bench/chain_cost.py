"""What a step of a chain costs in rllc's backends and in devinterp 2.0.1, measured in turn in one process.

    python bench/chain_cost.py [--quick] [--model demo paper long pythia] [--rounds 7] [--draws N] [--threads 1]

All sides get the same weights, head, rows, batch and settings (lr 1e-3, nbeta 30, gamma 200), the same number of
chains and draws, and first have to agree on the loss and its gradient. The whole bench runs twice in processes of its
own: with the system's allocator settings and with those that rllc gives to its workers. "pythia" is Pythia-70M's shape
at a context of 256, beside transformers' module of it, on a pool of fewer rows; what is kept for all rows is as with
1,024.

A line tells, all in ms per chain × draw, median (least) of wall time:
    torch, jax   `metrics.llc.measure` as a worker calls it: minibatches, restriction, chains, reference, estimate;
                 "bf16" with the frozen unembedding product in bfloat16; jax without its compilation. The few
                 gradients more that find the stiffness are counted as in chains of 200 draws. "heads" are all heads of
                 the last layer, stepping together where a plan would have them do so
    devinterp    its own loop `sample_single_chain` without observables in steady state: the first two steps of a
                 chain, the copy of the model, the garbage collections, the store and the reference are left out
and how many times less than devinterp that is, by wall and by CPU time (which other load on the machine disturbs less),
and the most resident memory above that before the bench. Two more lines tell what rllc computes once per checkpoint and
dataset (streams, reference), spread over all heads, and devinterp's whole call `sample` with observables={} and 16
reference batches. The rate of a large matrix product on the machine says how far from the limit a step is.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from devinterp.optim import SGMCMC
from devinterp.slt.sampler import sample_single_chain
from devinterp.slt.sampling import sample
from neox_module import NeoX, described, twin
from plain_module import Plain, token_losses

from rllc import launch
from rllc.backends import stiffness
from rllc.config import Model
from rllc.metrics import llc
from rllc.models import decoder, sharing
from rllc.models.pool import Pool
from rllc.models.restriction import restrict
from rllc.task import Sampler, Task

CACHE_BYTES = sharing.CACHE_BYTES
WARM = 2  # steps of a chain before its steady state
LENGTH = 200  # draws of the paper's chains
ROWS = 1024  # of the pool of a sweep
SETTINGS = Sampler(lr=1e-3, nbeta=30.0, gamma=200.0, chains=4, draws=40, burn_in=0, batch=8)
MODELS = {
    "demo": (Model(2, 8, 64, 8, 64, 512, "shortformer"), SETTINGS),
    "paper": (Model(2, 8, 256, 32, 256, 5000, "shortformer"), replace(SETTINGS, draws=20)),
    "long": (Model(2, 8, 256, 32, 1024, 5000, "shortformer"), replace(SETTINGS, draws=6)),
    "pythia": (described(256), replace(SETTINGS, chains=2, draws=4)),
}
FEWER = {"pythia": 32}  # rows: their references take a second each
ALLOCATORS = ("default", "rllc")
OURS = {
    "torch": {},
    "torch bf16": {"products": "bf16_unembed"},
    "torch heads": {},
    "torch heads bf16": {"products": "bf16_unembed"},
    "jax": {"backend": "jax"},
    "jax bf16": {"backend": "jax", "products": "bf16_unembed"},
}


@dataclass(frozen=True)
class Cost:
    """Seconds per chain × draw by two clocks."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Case:
    """One head of one model on one pool of rows."""

    model: Model
    module: Plain | NeoX
    pools: dict[tuple[str, str], Pool]
    sampler: Sampler
    layer: int
    head: int

    @property
    def pool(self) -> Pool:
        """The one of torch with exact products."""
        return self.pools["torch", "exact"]


def clocks() -> np.ndarray:
    return np.array([time.perf_counter(), time.process_time()])


def timed(work: Callable[[], object], count: float) -> Cost:
    began = clocks()
    work()
    return Cost(*((clocks() - began) / count))


def rllc(case: Case, side: str) -> Cost:
    sampler = replace(case.sampler, **OURS[side])
    extra = stiffness.DIRECTIONS + 1
    count = sampler.chains * (sampler.draws + extra) / (1 + extra / LENGTH)
    pool = case.pools[sampler.backend, sampler.products]
    heads = range(case.model.n_heads) if "heads" in side else [case.head]
    tasks = [Task("bench", "", 0, f"L{case.layer}H{head}", "random", "", "llc", 0, sampler) for head in heads]
    if "heads" in side:
        return timed(lambda: llc.measure_together(tasks, pool), count * len(tasks))
    return timed(lambda: llc.measure(tasks[0], pool), count)


def devinterp(case: Case) -> Cost:
    """The loop's own steps, from the end of one update to the end of the next."""
    sampler = case.sampler
    ends_CS: list[list[np.ndarray]] = [[] for _ in range(sampler.chains)]
    for chain in range(sampler.chains):
        sample_single_chain(
            case.module,
            [{"input_ids": row} for row in case.pool.tokens_NL],
            lambda module, batch: (token_losses(module, batch["input_ids"]), {}),
            case.module.masks(case.layer, case.head),
            num_draws=sampler.draws,
            sampling_method=SGMCMC.sgld,
            sampling_method_kwargs={"lr": sampler.lr, "nbeta": sampler.nbeta, "localization": sampler.gamma},
            chain=chain,
            seed=chain,
            dataloader_seed=chain,
            step_callback=lambda chain, step, optimizer: ends_CS[chain].append(clocks()),  # noqa: ARG005
            batch_size=sampler.batch,
        )
    spans = [(ends[-1] - ends[WARM - 1]) / (len(ends) - WARM) for ends in ends_CS]
    return Cost(*np.mean(spans, 0))


def whole(case: Case) -> Cost:
    sampler = case.sampler
    with tempfile.TemporaryDirectory() as folder:
        return timed(
            lambda: sample(
                case.module,
                [{"input_ids": row} for row in case.pool.tokens_NL],
                {},
                lr=sampler.lr,
                n_beta=sampler.nbeta,
                localization=sampler.gamma,
                param_masks=case.module.masks(case.layer, case.head),
                loss_fn=token_losses,
                num_chains=sampler.chains,
                num_draws=sampler.draws,
                batch_size=sampler.batch,
                num_init_loss_batches=16,
                device="cpu",
                output_path=Path(folder) / "samples.zarr",
            ),
            sampler.chains * sampler.draws,
        )


def check_losses(case: Case) -> None:
    """Both sides must have the same loss on the same rows, and a slope of the same length in the head's weights."""
    rows_CB = torch.arange(case.sampler.batch)[None].expand(case.sampler.chains, -1)
    potential = restrict(case.pool, f"L{case.layer}H{case.head}")
    live = [array.expand(len(rows_CB), *array.shape).clone().requires_grad_() for array in potential.start]
    ours_B = potential.losses(live, rows_CB)[0]
    theirs_B = token_losses(case.module, case.pool.tokens_NL[rows_CB[0]]).mean(1)
    masks = case.module.masks(case.layer, case.head)
    owned = [(array, masks[name]) for name, array in case.module.named_parameters() if name in masks]
    slopes = torch.autograd.grad(theirs_B.mean(), [array for array, _ in owned])
    theirs = sum(((slope * mask) ** 2).sum() for slope, (_, mask) in zip(slopes, owned, strict=True)) ** 0.5
    ours = sum((slope[0] ** 2).sum() for slope in torch.autograd.grad(ours_B.mean(), live)) ** 0.5
    assert (ours_B - theirs_B).abs().max() < 2e-5, "the two sides have different losses"
    assert abs(ours / theirs - 1) < 1e-3, "the two sides have different gradients"


def resident_mb(name: str) -> float:
    """VmHWM or VmRSS of the process (Linux; NaN elsewhere)."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    return int(next(line for line in status.read_text().splitlines() if line.startswith(name)).split()[1]) / 1024


def peak_mb(work: Callable[[], Cost]) -> tuple[Cost, float]:
    """The cost, and the largest resident memory of the process meanwhile."""
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")  # starts the record of the peak anew
    return work(), resident_mb("VmHWM")


def matmul_rate(threads: int) -> float:
    """Floating-point operations a second of a product of 1,024 × 1,024 float32 matrices, in 1e9."""
    a = torch.randn(1024, 1024)
    return max(2 * 1024**3 / timed(lambda: a @ a, 1).wall for _ in range(10 * threads)) / 1e9


def compare(name: str, options: argparse.Namespace) -> None:
    """Print the lines of one model."""
    model, sampler = MODELS[name]
    if options.quick:
        sampler = replace(sampler, chains=2, draws=10)
    if options.draws:
        sampler = replace(sampler, draws=options.draws)
    weights = decoder.init(model, seed=0)
    rows = FEWER.get(name, options.rows)
    sharing.CACHE_BYTES = CACHE_BYTES * rows // options.rows
    tokens_NL = torch.from_numpy(np.random.default_rng(0).integers(model.d_vocab, size=(rows, model.n_ctx)))
    idle = resident_mb("VmRSS")
    rows_NL = tokens_NL.numpy()
    pools = {
        (backend, products): Pool.of(weights, model, rows_NL, replace(sampler, backend=backend, products=products))
        for backend in ("torch", "jax")[: 1 if model.d_mlp else 2]
        for products in ("exact", "bf16_unembed")
    }
    count = sampler.chains * sampler.draws * model.n_layers * model.n_heads
    once = timed(lambda: pools["torch", "exact"].reference(torch.zeros(1, 1, dtype=torch.int64)), count)
    module = twin(weights, model)
    cases = [Case(model, module, pools, sampler, layer, 0) for layer in (model.n_layers // 2 - 1, model.n_layers - 1)]
    sides = [*(side for side in OURS if side in options.sides), "devinterp"]
    found: dict[tuple[int, str], list[tuple[Cost, float]]] = {}
    together = sharing.together(model, sampler, rows) > 1

    def of(case: Case) -> list[str]:
        able = [side for side in sides if "jax" not in side or not model.d_mlp]
        return [side for side in able if "heads" not in side or (together and case.layer == model.n_layers - 1)]

    for case in cases:
        check_losses(case)
        for side in of(case):
            cost(case, side)  # compiles, and fills what is kept
    for turn in range(options.rounds):
        for case in cases:
            for side in of(case) if turn % 2 else reversed(of(case)):
                measured = peak_mb(lambda side=side, case=case: cost(case, side))
                found.setdefault((case.layer, side), []).append(measured)
    for case in cases:
        for side in of(case):
            theirs = found[case.layer, "devinterp"]
            print(line(f"{name} L{case.layer}H{case.head}", side, found[case.layer, side], theirs, idle), flush=True)
        print(f"    once {1e3 * once.wall:.2f}; devinterp's whole call {1e3 * whole(case).wall:.1f}", flush=True)


def cost(case: Case, side: str) -> Cost:
    return devinterp(case) if side == "devinterp" else rllc(case, side)


def line(
    name: str, side: str, ours: Sequence[tuple[Cost, float]], theirs: Sequence[tuple[Cost, float]], idle: float
) -> str:
    def middle(side: Sequence[tuple[Cost, float]], clock: str) -> float:
        return 1e3 * float(np.median([getattr(cost, clock) for cost, _ in side]))

    wall, cpu = (middle(theirs, clock) / middle(ours, clock) for clock in ("wall", "cpu"))
    least = 1e3 * min(cost.wall for cost, _ in ours)
    peak = max(peak for _, peak in ours) - idle
    return f"{name:12} {side:16} {middle(ours, 'wall'):8.2f} ({least:.2f})  {wall:5.2f} × ({cpu:.2f})  {peak:6.0f} MB"


def measure(options: argparse.Namespace) -> None:
    """The bench in this process, as its environment is."""
    warnings.simplefilter("ignore")  # devinterp's own
    torch.set_num_threads(options.threads)
    if hasattr(os, "sched_setaffinity"):  # XLA starts threads of its own
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    print(f"a product of two matrices of 1,024 × 1,024 runs at {matmul_rate(options.threads):.0f} GFLOP/s")
    for name in options.model:
        compare(name, options)


def main() -> None:
    """Run the bench once under each allocator setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 chains of 10 draws, 2 rounds")
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--sides", nargs="*", choices=list(OURS), default=list(OURS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=ROWS, help="of the pool")
    parser.add_argument("--draws", type=int, help="of a chain (demo 40, paper 20, long 6, pythia 4)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--allocators", nargs="+", choices=ALLOCATORS, default=ALLOCATORS)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.rounds = min(options.rounds, 2)
    if options.here:
        return measure(options)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    plain |= launch.MKL | dict.fromkeys(launch.THREADS, str(options.threads)) | {"TQDM_DISABLE": "1"}
    for name in options.allocators:
        environment = plain | (launch.MALLOC if name == "rllc" else {})
        print(f"\nallocator: {name}, threads: {options.threads}", flush=True)
        subprocess.run([sys.executable, *sys.argv, "--here"], env=environment, check=True)
    return None


if __name__ == "__main__":
    main()

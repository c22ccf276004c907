"""Chains at the sizes of real models, on random weights and rows: seconds, memory, and what the whole sweep would cost.

    python bench/real_size.py [--model paper pythia70m] [--layers 0 1] [--parts head] [--draws 10] [--threads 1]
    python bench/real_size.py --beside-devinterp [--batch 8]

Model, sampler, length and number of rows, steps and datasets are those of the experiment's own file; only the draws are
cut. Each part is measured in a process of its own, with the environment of a worker and through the code of a sweep:
the pool of one checkpoint and dataset, the restriction, `metrics.llc.sample`. Apart are told what is computed once for
a checkpoint and dataset (the reference), once for a part (its first step, with what is kept for all rows), and the
seconds per chain × draw from then on; the gradients for the stiffness are a few steps more. Memory is the highest
resident set above that of the idle process, with everything imported. With fewer `--rows` what is done once for all
rows, and kept for them, is multiplied up. `--beside-devinterp` runs two draws of devinterp
2.0.1 on the same shape, one chain after the other, in a process of its own.

A head of the paper's model takes seven minutes of a core.

The whole sweep is extrapolated from the measured seconds of a FLOP (`rllc.planning`), and for other devices by SHARE of
the peak rates in DEVICES, both assumed and not measured. rllc computes in float32; the lines of less precision say what
products in it would take.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rllc import composition, cost, launch, planning
from rllc.config import Config, Model
from rllc.plan import Cell
from rllc.planning import Checkpoint, Dataset

SHARE = 0.3  # of a device's peak that is assumed to be sustained; the measured core reaches about half of its own
DEVICES = {  # peak FLOP/s of dense products, as the vendor gives it
    "A100, float32": 19.5e12,
    "A100, TF32": 156e12,
    "A100, bfloat16": 312e12,
    "H100 SXM, float32": 67e12,
    "H100 SXM, TF32": 494e12,
    "H100 SXM, bfloat16": 989e12,
}
DRAWS = {"paper": 10, "pythia70m": 2}
ROWS = {"paper": 0, "pythia70m": 64}  # 0: all that the experiment asks for
LAYERS = {"paper": (0,), "pythia70m": (5,)}
PARTS = {"head": "L{layer}H0", "mlp": "L{layer}.mlp"}


@dataclass(frozen=True)
class Used:
    """Seconds of a part, apart as the module's docstring says, and MiB above the idle process; the value of λ̂."""

    part: str
    reference: float
    first: float
    draw: float
    core: float
    mib: float
    idle: float
    value: float


def asked(name: str) -> tuple[Config, Model]:
    """The experiment and its model, with the length of its rows."""
    config = composition.compose([f"experiment={name}"])
    model = config.model
    if name != "paper":
        from neox_module import described

        model = described(2048)
    assert config.source is not None
    return config, replace(model, n_ctx=min(config.source.context or model.n_ctx, model.n_ctx))


def planned(config: Config, model: Model, parts: Sequence[str], steps: Sequence[int]) -> list[Cell]:
    """The cells of these steps on the experiment's datasets; files are not needed."""
    points = [Checkpoint(config.run, step, "", f"{step}", model) for step in steps]
    datasets = [Dataset(name, name, name) for name in config.grid.datasets or config.data]
    grid = replace(config.grid, steps=list(steps), parts=list(parts), metrics=["llc"])
    return planning.cells(points, datasets, datasets[0], grid=grid, sampler=config.sampler)


def clocks() -> tuple[float, float]:
    """Wall seconds and seconds of a core, which other load disturbs less."""
    return time.perf_counter(), time.process_time()


class Clocked:
    """A potential that notes when its chains ask for losses."""

    def __init__(self, potential: Any) -> None:
        self.start, self.reference, self._potential = potential.start, potential.reference, potential
        self.asked: list[tuple[float, float]] = []

    def losses(self, live: Any, rows: Any) -> Any:
        """The potential's own."""
        self.asked.append(clocks())
        return self._potential.losses(live, rows)


def measure(name: str, part: str, draws: int, batch: int, rows: int) -> Used:
    """One part, in this process."""
    import numpy as np
    import torch

    from rllc.metrics import llc
    from rllc.models import decoder, sharing
    from rllc.models.pool import Pool
    from rllc.models.restriction import restrict

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    config, model = asked(name)
    sampler = replace(config.sampler, draws=draws, batch=batch or config.sampler.batch)
    (cell, *_) = planned(config, model, [part], [0])
    weights = decoder.init(model, 0)
    every = next(iter(config.data.values())).pool
    rows = rows or every
    more = every / rows
    sharing.CACHE_BYTES = int(sharing.CACHE_BYTES / more)  # the same arrays are kept for all rows, and others not
    tokens_NL = np.random.default_rng(0).integers(model.d_vocab, size=(rows, model.n_ctx))
    idle = resident("VmRSS")
    began = time.perf_counter()
    pool = Pool.of(weights, model, tokens_NL, sampler)
    pool.reference(torch.zeros(1, 1, dtype=torch.int64))
    reference = time.perf_counter() - began
    began = time.perf_counter()
    potential = Clocked(restrict(pool, part))
    found = llc.sample(replace(cell.task, sampler=sampler), potential, reference=pool.reference, rows=rows)
    per_step, core = rate(potential.asked[1 : draws + 1])
    first = max(0.0, potential.asked[1][0] - began - per_step)
    kept = sum(array.nbytes for array in pool._kept.values()) / 2**20
    mib = resident("VmHWM") - idle + (more - 1) * kept
    assert found.health != "diverged", found.reason
    draw, core = per_step / sampler.chains, core / sampler.chains
    return Used(part, more * reference, more * first, draw, core, mib, idle, found.value)


def rate(at: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Seconds from one time to the next, by both clocks."""
    wall, core = ((last - first) / (len(at) - 1) for first, last in zip(at[0], at[-1], strict=True))
    return wall, core


def devinterp(name: str, part: str, draws: int, batch: int, _rows: int) -> Used:
    """devinterp's own loop on the same shape and head, in this process."""
    import numpy as np
    import torch
    from devinterp.optim import SGMCMC
    from devinterp.slt.sampler import sample_single_chain
    from neox_module import twin
    from plain_module import token_losses

    from rllc.models import decoder

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    config, model = asked(name)
    sampler = config.sampler
    module = twin(decoder.init(model, 0), model)
    tokens_NL = torch.from_numpy(np.random.default_rng(0).integers(model.d_vocab, size=(1024, model.n_ctx)))
    layer, _, head = part[1:].partition("H")
    idle = resident("VmRSS")
    at: list[tuple[float, float]] = []
    sample_single_chain(
        module, [{"input_ids": row} for row in tokens_NL],
        lambda module, batch: (token_losses(module, batch["input_ids"]), {}),
        module.masks(int(layer), int(head)), num_draws=draws, sampling_method=SGMCMC.sgld,
        sampling_method_kwargs={"lr": sampler.lr, "nbeta": sampler.nbeta, "localization": sampler.gamma},
        chain=0, seed=0, dataloader_seed=0, step_callback=lambda *_, **__: at.append(clocks()),
        batch_size=batch or sampler.batch,
    )  # fmt: skip
    return Used(f"{part} by devinterp", 0.0, 0.0, *rate(at), resident("VmHWM") - idle, idle, 0.0)


def resident(name: str) -> float:
    """VmHWM or VmRSS of this process (MiB; Linux)."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith(name)).split()[1]) / 1024


def apart(side: str, name: str, part: str, *, draws: int, batch: int, rows: int, threads: int) -> Used:
    """Measure in a fresh process with a worker's environment."""
    environment = dict(os.environ) | launch.MKL | launch.MALLOC | dict.fromkeys(launch.THREADS, str(threads))
    words = [sys.executable, __file__, "--here", side, name, part, str(draws), str(batch), str(rows)]
    environment["TQDM_DISABLE"] = "1"
    said = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
    return Used(**json.loads(said.splitlines()[-1]))


def tell(used: Used, flop: float) -> None:
    """One line; `flop` of a chain × draw."""
    once = f"reference {used.reference:.1f} s, first {used.first:.1f} s; " if flop else ""
    said = f" ({flop / 1e9:.0f} GFLOP, {flop / used.core / 1e9:.0f} GFLOP/s)" if flop else ""
    print(
        f"{used.part:16} {once}chain × draw {used.draw:.2f} s, {used.core:.2f} s of cores{said}; "
        f"memory {used.mib:.0f} MiB above {used.idle:.0f}",
        flush=True,
    )


def sweep(name: str, measured: dict[str, Used], core: str) -> None:
    """What the experiment's whole grid costs by the measured rates, and on other devices by assumed ones."""
    config, model = asked(name)
    assert config.grid.steps is not None
    cells = planned(config, model, config.grid.parts, config.grid.steps)
    heads = {part: used for part, used in measured.items() if "H" in part}
    per_draw = config.sampler.chains * config.sampler.steps
    flop = {part: planned(config, model, [part], [0])[0].cost / per_draw for part in heads}
    once = sum(used.reference for used in heads.values()) / len(heads)
    per_flop = sum(used.draw for used in heads.values()) / sum(flop.values())
    rates = {cost.kind(cells[0]): cost.Rate(0.0, per_flop)}
    total = cost.estimate(cells, rates)
    pools = once * len(config.grid.steps) * len(config.data)
    print(f"\n{name}, the whole sweep: {total.tasks:,} tasks, {total.steps:.3g} chain steps, {total.flop:.3g} FLOP")
    print(f"  {core + ', measured':28} {1 / per_flop / 1e12:8.3f} TFLOP/s {(total.seconds + pools) / 3600:10.1f} h")
    for device, peak in DEVICES.items():
        spent = total.flop / SHARE / peak / 3600
        print(f"  {device + ', assumed':28} {SHARE * peak / 1e12:8.1f} TFLOP/s {spent:10.2f} h")


def main() -> None:
    """Print a line a part, and the table of each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", choices=list(DRAWS), default=["paper"])
    parser.add_argument("--layers", type=int, nargs="+", help="paper: 0, pythia70m: 5")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=["head"])
    parser.add_argument("--draws", type=int, help="at least 2; paper: 10, pythia70m: 2")
    parser.add_argument("--batch", type=int, default=0, help="rows of a minibatch; the experiment's own")
    parser.add_argument("--rows", type=int, help="of the pool; paper: all that the experiment asks for, pythia70m: 64")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--beside-devinterp", action="store_true")
    parser.add_argument("--here", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # devinterp's own
    if options.here:
        side, name, part, *numbers = options.here
        work = measure if side == "rllc" else devinterp
        print(json.dumps(asdict(work(name, part, *(int(number) for number in numbers)))))
        return
    core = f"{options.threads} CPU core{'s' * (options.threads > 1)}"
    for name in options.model:
        print(f"\n{name}; load {os.getloadavg()[0]:.1f}, {core}", flush=True)
        config, model = asked(name)
        found = {}
        for layer in options.layers or LAYERS[name]:
            for part in (PARTS[kind].format(layer=layer) for kind in options.parts):
                draws = options.draws or DRAWS[name]
                rows = ROWS[name] if options.rows is None else options.rows
                shape = {"draws": draws, "batch": options.batch, "rows": rows, "threads": options.threads}
                found[part] = apart("rllc", name, part, **shape)
                steps = config.sampler.chains * config.sampler.steps
                share = (options.batch or config.sampler.batch) / config.sampler.batch
                tell(found[part], planned(config, model, [part], [0])[0].cost / steps * share)
                if options.beside_devinterp:
                    tell(apart("devinterp", name, part, **{**shape, "draws": 3}), 0.0)
        if not options.batch and any("H" in part for part in found):
            sweep(name, found, core)


if __name__ == "__main__":
    main()

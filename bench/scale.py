"""A sweep of 200,000 tasks without its chains: plan, status, second submission, files in a folder, and gathering.

    python bench/scale.py [--steps 500] [--results 1000 4000] [--folder DIR]

The plan has 100 heads × `steps` × 2 datasets × 2 seeds; half of it is done, in 64 indexes, by empty files of the right
names, and 16 of 64 shards are at work. Gathering reads real results of 8 chains × 300 steps, of two numbers that show
whether memory grows; its time for the whole plan is that of one result multiplied up. Each stage is a process of its
own, so that its memory is its own. A goal that is missed is marked, and makes the exit code 1.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from rllc import gather, plan, planning, shards, store
from rllc.config import Grid, Model
from rllc.planning import Checkpoint, Dataset
from rllc.task import Estimate, Sampler

MODEL = Model(n_layers=10, n_heads=10, d_model=640, d_head=64, n_ctx=1024, d_vocab=50000, positions="learned")
SAMPLER = Sampler(lr=1e-3, nbeta=30.0, gamma=200.0, chains=8, draws=200, burn_in=100, batch=32)
GRID = Grid(steps=None, parts=["heads"], datasets=None, seeds=[0, 1], metrics=["llc"])
DATASETS = [Dataset(name, name * 4, f"data/{name}-0123456789abcdef.npy") for name in ("pile", "code")]
SHARDS, LIVE, INDEXES, FAILED = 64, 16, 64, 1000


def cells(steps: int) -> list[plan.Cell]:
    checkpoints = [
        Checkpoint("demo-s0", step, f"runs/demo-s0/checkpoints/step_{step:07}.safetensors", f"{step:016x}", MODEL)
        for step in range(0, 1000 * steps, 1000)
    ]
    return planning.cells(checkpoints, DATASETS, DATASETS[0], grid=GRID, sampler=SAMPLER)


def half(sweep: Path, steps: int) -> str:
    """The old plan, of every other checkpoint."""
    plan.write(sweep, [cell for cell in cells(steps) if cell.task.step % 2000 == 0])
    return ""


def whole(sweep: Path, steps: int) -> str:
    """Grow it to the whole one."""
    grown = plan.grow(plan.read(sweep), cells(steps), sweep)
    plan.write(sweep, grown)
    return f"{len(grown):,} tasks, {(sweep / 'plan.jsonl').stat().st_size / 2**20:.0f} MiB"


def fill(sweep: Path, _: int) -> str:
    """What is left by workers that have done half."""
    tasks = [cell.task for cell in plan.read(sweep)]
    (sweep / "index").mkdir(exist_ok=True)
    files = [(sweep / "index" / f"001-{place:04}.jsonl").open("w") for place in range(INDEXES)]
    for place, task in enumerate(tasks[::2]):
        file = store.path(sweep, task.key)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        line = {"key": task.key, "value": 0.5, "error": 0.1, "seconds": 1.0, "health": "ok", "reason": ""}
        files[place % INDEXES].write(json.dumps(line) + "\n")
    for file in files:
        file.close()
    for task in tasks[1 : 2 * FAILED : 2]:
        store.put_error(sweep, task.key, "Traceback (most recent call last):\n  …\nValueError: no such rows\n")
    for place, shard in enumerate(shards.cut(plan.read(sweep), SHARDS)[:LIVE]):
        plan.write_lines(sweep / "slurm" / "001" / "shards" / f"{place:04}.jsonl", shard)
    return ""


def tell(sweep: Path, _: int) -> str:
    """All of `rllc status`."""
    words = ["status", f"root={sweep.parent.parent}", f"name={sweep.name}"]
    told = subprocess.run(
        [sys.executable, "-c", "from rllc.cli import main; main()", *words], check=True, capture_output=True
    )
    return told.stdout.decode().splitlines()[0].partition(": ")[2]


def submit(sweep: Path, _: int) -> str:
    """What a second submission does before it calls sbatch."""
    live = {cell.task.key for file in (sweep / "slurm/001/shards").iterdir() for cell in plan.read_lines(file)}
    found = shards.cut(plan.read(sweep), SHARDS, store.keys(sweep) | live)
    for place, shard in enumerate(found):
        plan.write_lines(sweep / "slurm" / "002" / "shards" / f"{place:04}.jsonl", shard)
    costs = [sum(cell.cost for cell in shard) for shard in found]
    loads = sum(len({cell.checkpoint for cell in shard}) for shard in found)
    steps = len({cell.checkpoint for shard in found for cell in shard})
    even = f"cost {min(costs) / np.mean(costs):.2f} to {max(costs) / np.mean(costs):.2f} of the mean"
    return f"{len(found)} shards, {even}, {loads} loads of {steps} checkpoints"


def results(sweep: Path, count: int) -> str:
    """Real results, on which gathering is measured."""
    rng = np.random.default_rng(0)
    planned = cells(1 + count // 400)[:count]
    plan.write(sweep, planned)
    stats = dict.fromkeys(gather.STATS, 0.5)
    for cell in planned:
        loss_CS = rng.normal(size=(SAMPLER.chains, SAMPLER.steps)).astype(np.float32)
        chains_C = loss_CS.mean(1).astype(np.float64)
        store.put(sweep, Estimate(cell.task, 0.5, 0.1, chains_C, loss_CS, "ok", "", stats, 1.0, "0.1.0+abc"), "w")
    return ""


def collect(sweep: Path, count: int) -> str:
    assert len(gather.gather(sweep, plan.read(sweep))) == count
    return f"{count:,} results"


STAGES = {stage.__name__: stage for stage in (half, whole, fill, tell, submit, results, collect)}


@dataclass(frozen=True)
class Used:
    """What a stage took: wall seconds, of them seconds of a core, peak memory; and what it has to say."""

    seconds: float
    core: float
    mib: float
    said: str


def run(stage: str, sweep: Path, count: int) -> Used:
    """Do a stage in a process of its own."""
    words = [sys.executable, __file__, "--stage", stage, "--folder", str(sweep), "--steps", str(count)]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return Used(**json.loads(said.splitlines()[-1]))


def stage(name: str, sweep: Path, count: int) -> None:
    began = time.perf_counter()
    said = STAGES[name](sweep, count)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    core, peak = sum(each.ru_utime + each.ru_stime for each in used), max(each.ru_maxrss for each in used) / 1024
    print(json.dumps(asdict(Used(time.perf_counter() - began, core, peak, said))))


def goal(name: str, found: float, most: float, unit: str, said: str = "") -> bool:
    """Print one line of the table; whether the goal is met."""
    print(f"{name:30} {found:8.1f} {unit:4} goal {most:5,.0f} {'' if found <= most else 'MISSED '} {said}", flush=True)
    return found <= most


def goals(name: str, used: Used, seconds: float) -> list[bool]:
    """The same for the time and memory of a stage; the core's time is with the start of Python and its imports."""
    said = f"({used.core:.1f} s of a core) {used.said}"
    return [goal(name, used.seconds, seconds, "s", said), goal(f"{name}: memory", used.mib, 1024, "MiB")]


def scale(folder: Path, steps: int) -> list[bool]:
    sweep = folder / "sweeps" / "scale"
    run("half", sweep, steps)
    met = goals("plan: grow and write", run("whole", sweep, steps), 30)
    run("fill", sweep, steps)
    met += goals("status", run("tell", sweep, steps), 5)
    met += goals("second submission", run("submit", sweep, steps), 10)
    most, path = max((len(names) + len(folders), path) for path, folders, names in os.walk(sweep))
    return [*met, goal("files of a folder, half done", most, 2000, "", f"in {Path(path).relative_to(sweep)}/")]


def gathering(folder: Path, counts: Sequence[int], tasks: int) -> list[bool]:
    found = []
    for count in counts:
        sweep = folder / "sweeps" / f"gather-{count}"
        run("results", sweep, count)
        found.append(run("collect", sweep, count))
        print(
            f"{'gather':30} {found[-1].seconds:8.1f} s    ({found[-1].core:.1f} s of a core) {found[-1].said}",
            flush=True,
        )
    one, other = found
    each = (other.core - one.core) / (counts[1] - counts[0])
    said = f"of a core, extrapolated: {1000 * each:.2f} ms a result"
    print(f"{f'gather: {tasks:,}':30} {each * tasks:8.1f} s    {said}", flush=True)
    return [goal("gather: memory it grows by", other.mib - one.mib, 64, "MiB", f"to {other.mib:.0f} MiB")]


def main() -> int:
    """Print the table, or do one stage for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--results", type=int, nargs=2, default=[1000, 4000])
    parser.add_argument("--folder", type=Path, help="where to make the temporary folder")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        stage(options.stage, options.folder, options.steps)
        return 0
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        met = scale(Path(folder), options.steps) + gathering(Path(folder), options.results, 400 * options.steps)
    return int(not all(met))


if __name__ == "__main__":
    sys.exit(main())

"""What a task costs beyond its own work: a raw job array, a sweep through Slurm and the same sweep by local processes.

    nice python bench/slurm_overhead.py [--tasks 512] [--nodes 8]

Starts a Slurm of simulated nodes, one core each, on this machine (root; the packages of `.ci/run`). The raw array runs
`true` once a task. A sweep runs 2 chains of 20 steps a task on an attention model of 16 heads, a shard for each node.
Slot-seconds are those of the array's elements as `sacct` has them, or of the local launch stage times its workers. The
loop of a worker lasts from the beginning of its first task to the end of its last, as the times of its result files
tell. What the loop spends beyond the tasks' own `seconds` is the overhead; what a slot spends outside of the loop is
the start and the end of a worker.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

HEADS, STEPS = 16, 16
JOBS = Path(__file__).parents[1] / "jobs"
RLLC = Path(sys.executable).with_name("rllc")
TINY = [
    "run=tiny", "name=bench", "data=[files]", "data.files.pool=64", "train.data=files", "model.n_ctx=32",
    "model.d_model=32", "model.d_head=4", "model.d_vocab=300", f"train.steps={10 * (STEPS - 1)}", "train.batch=4",
    "train.checkpoints.every=10", "train.checkpoints.log=0", "grid.steps=null", "grid.metrics=[llc]",
    "sampler.chains=2", "sampler.draws=20", "sampler.burn_in=0", "sampler.batch=4",
]  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """Seconds of one way to do the tasks."""

    way: str
    tasks: int
    wall: float
    slot: float  # of all slots
    loop: float
    work: float
    workers: int

    def line(self) -> str:
        """A row of the table."""
        overhead = (self.loop - self.work) / self.tasks
        start = (self.slot - self.loop) / self.workers
        return (
            f"| {self.way} | {self.tasks} | {self.wall:.1f} | {self.work / self.tasks:.3f} | {overhead:.3f} | "
            f"{start:.1f} |"
        )


def ask(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def raw(tasks: int, slots: int) -> Cost:
    """A job array of `true`: every task is a start."""
    began = time.time()
    job = ask("sbatch", "--parsable", f"--array=0-{tasks - 1}", "--output=/dev/null", "--wrap=true").strip()
    while ask("squeue", "-h", "-j", job):
        time.sleep(0.5)
    wall = time.time() - began
    return Cost("raw array of `true`", tasks, wall, slots * wall, slots * wall, 0.0, slots)


def trained(root: Path) -> None:
    """Train the run that both sweeps measure."""
    rng, text = random.Random(0), root.with_name("text.jsonl")
    text.write_text("".join(json.dumps({"text": " ".join(f"{rng.randrange(10**6)} loss" for _ in range(20))}) + "\n"
                            for _ in range(400)))  # fmt: skip
    subprocess.run([RLLC, "train", *TINY, f"root={root}", f"data.files.path={text}"], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip


def sweep(run: Path, way: str, tasks: int, slots: int, *words: str) -> Cost:
    """A sweep in a copy of the folder that has the run."""
    root = shutil.copytree(run, run.with_name(way))
    seeds = f"grid.seeds={list(range(tasks // STEPS // HEADS))}"
    text = f"data.files.path={root.with_name('text.jsonl')}"
    began = time.time()
    done = subprocess.run(
        [RLLC, "sweep", *TINY, f"root={root}", text, seeds, "stages=[plan,launch]", *words],
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    files = {file.stem: file for file in (root / "sweeps" / "bench").glob("results/*/*.npz")}
    loop, work, last, workers = 0.0, 0.0, 0.0, 0
    for index in (root / "sweeps" / "bench" / "index").glob("*.jsonl"):
        lines = [json.loads(line) for line in index.read_text().splitlines()]
        ends = [files[line["key"]].stat().st_mtime for line in lines]
        spent = [line["seconds"] for line in lines]
        loop += max(ends) - ends[0] + spent[0]
        work += sum(spent)
        last, workers = max(last, *ends), workers + 1
    assert len(files) == tasks
    slot = elements(root) if "launch=slurm" in words else slots * float(re.search(r"launch ([\d.]+) s", done.stdout)[1])
    return Cost(way, tasks, last - began, slot, loop, work, workers)


def elements(root: Path) -> float:
    """Seconds from start to end of the elements of a sweep's arrays, once `sacct` has them all."""
    (file,) = (root / "sweeps" / "bench" / "slurm").glob("*/submission.json")
    jobs = ",".join(json.loads(file.read_text())["jobs"])
    while True:
        lines = ask("sacct", "-X", "-n", "-P", "-j", jobs, "-o", "State,Start,End").split()
        if all(line.startswith("COMPLETED") for line in lines):
            break
        time.sleep(1)
    times = [[datetime.fromisoformat(each) for each in line.split("|")[1:]] for line in lines]
    return sum((end - start).total_seconds() for start, end in times)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=512, help=f"a multiple of {HEADS * STEPS}")
    parser.add_argument("--nodes", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trained(folder / "root")
        site = {"NODES": str(options.nodes), "CPUS": "1", "GPUS": "0", "ACCOUNTING": "dbd", "PREFIX": "bench"}
        subprocess.run([JOBS / "start_slurm.sh", folder / "site"], env={**os.environ, **site}, check=True)
        os.environ["SLURM_CONF"] = str(folder / "site" / "etc" / "slurm.conf")
        try:
            print("| way | tasks | all done, s | work a task, s | overhead a task, slot-s | start of a worker, s |")
            print("|---|---|---|---|---|---|")
            print(raw(options.tasks, options.nodes).line(), flush=True)
            size, slots = options.tasks, options.nodes
            through = ("launch=slurm", f"launch.shards={slots}", "launch.cpus=1", "launch.mem=1G", "launch.wait=true")
            print(sweep(folder / "root", "through Slurm", size, slots, *through).line(), flush=True)
            print(sweep(folder / "root", "local processes", size, slots, f"launch.workers={slots}").line(), flush=True)
        finally:
            subprocess.run([JOBS / "stop_slurm.sh", folder / "site", "--purge"], check=True)


if __name__ == "__main__":
    main()

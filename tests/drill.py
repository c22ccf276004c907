"""A small sweep over a module of mischief, whose tasks a test can hold, break or slow while they are measured."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import mischief
import torch
from tiny import Job

STEPS = (0, 10, 20, 30)
TASKS = len(STEPS) * len(mischief.DATASETS) * len(mischief.PARTS)


@dataclass(frozen=True)
class Start:
    """One start of a task: by which process, on which node, with which devices in sight; "-" is none."""

    pid: int
    node: str
    devices: str


def overrides(job: Job) -> dict[str, object]:
    """The overrides of the sweep: every task takes some hundredths of a second."""
    return {
        "model": "module", "module.make": "mischief:Net", "module.loss": "mischief:loss",
        "module.data": "{near: mischief:near, far: mischief:far}", "path": job.root.parent / "states",
        "root": job.root, "name": "tiny", "grid.parts": f"[{','.join(mischief.PARTS)}]",
        "sampler.chains": 2, "sampler.draws": 4, "sampler.burn_in": 0, "sampler.batch": 3,
        "stages": "[plan,launch,gather]",
    }  # fmt: skip


def fresh(folder: Path, **options: object) -> Job:
    """The sweep, not begun, in a folder of its own: saved states, the module, no orders."""
    (folder / "states").mkdir(parents=True)
    (folder / "orders").mkdir()
    shutil.copy(mischief.__file__, folder)
    for step in STEPS:
        torch.manual_seed(step)
        net = mischief.Net()
        net.step.fill_(step)
        torch.save(net.state_dict(), folder / "states" / f"net_{step:02}.pt")
    return Job(folder / "root", folder, options, overrides)


def order(job: Job, task: str, what: str) -> Path:
    """Order something of a task, "10-near-first"; the file that has to go for the order to end."""
    file = job.root.parent / "orders" / f"{task}.{what}"
    file.touch()
    return file


def slow(job: Job, seconds: float) -> Path:
    """Let every evaluation of the loss take so long; a task has about ten."""
    file = job.root.parent / "orders" / "seconds"
    file.write_text(str(seconds))
    return file


def starts(job: Job, task: str) -> list[Start]:
    """How often a task has been started, and where."""
    file = job.root.parent / "seen" / task
    lines = file.read_text().splitlines() if file.exists() else []
    return [Start(int(pid), node, devices) for pid, node, devices in (line.split() for line in lines)]


def begun(job: Job) -> dict[str, int]:
    """The number of starts of each task that has been started."""
    return {file.name: len(starts(job, file.name)) for file in (job.root.parent / "seen").glob("*")}

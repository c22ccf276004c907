"""Training of one run: its settings, its schedule of checkpoints, and how far it is; no torch.

`python -m rllc.train RUN_FOLDER` trains it; the folder's `config.yaml` says everything. Each batch depends on the seed
and the step alone, so the resume state is the weights, the optimizer and the step.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from rllc import atomic
from rllc.config import Model, Schedule, Train, differences, plain
from rllc.mistake import Mistake


def saved_steps(schedule: Schedule, steps: int) -> list[int]:
    """The steps whose weights are kept: 0, multiples of `every`, `log` log-spaced ones from 1, and the last."""
    linear = range(0, steps + 1, schedule.every)
    log = np.geomspace(1, steps, schedule.log).round().astype(int).tolist() if schedule.log else []
    return sorted({0, steps, *linear, *log})


def learning_rate(train: Train, step: int) -> float:
    """Linear warm-up to `lr`, then constant."""
    return train.lr * min(1.0, (step + 1) / max(train.warmup, 1))


def as_dict(model: Model, train: Train, seed: int) -> dict[str, Any]:
    """What `prepare` stores of the settings: the model, the training options, and this run's seed.

    What the weights do not depend on is left out, and so is a tokenizer that is made from the text.
    """
    options = dataclasses.asdict(train)
    for name in ("seeds", "processes", *(name for name in ("tokenizer", "bos") if options[name] is None)):
        del options[name]
    return {"seed": seed, "model": plain(model), "train": options}


def prepare(path: Path, wanted: dict[str, Any]) -> None:
    """Write the run's `config.yaml`, or check that the run there is the one that is wanted.

    Raises:
        Mistake: the folder holds another run; the keys that differ are named.
    """
    import yaml

    file = path / "config.yaml"
    if not file.exists():
        atomic.write_text(file, yaml.safe_dump(wanted, sort_keys=False))
        return
    found = yaml.safe_load(file.read_text())
    differs = differences(found, wanted)
    if differs:
        raise Mistake(f"run: {path} was trained with other settings: {'; '.join(differs)}; choose another run= name.")


def settings(path: Path) -> tuple[Model, Train, Path]:
    """The model, the options and the file of training rows of a run that was prepared; its seed is the only one."""
    import yaml

    config = yaml.safe_load((path / "config.yaml").read_text())
    options = {**config["train"], "checkpoints": Schedule(**config["train"]["checkpoints"])}
    return Model(**config["model"]), Train(**options, seeds=[config["seed"]]), path / config["rows"]


def finished(path: Path) -> bool:
    """Whether every checkpoint of the run's schedule is there; not before the run is prepared."""
    if not (path / "config.yaml").exists():
        return False
    _, train, _ = settings(path)
    return all(checkpoint(path, step).exists() for step in saved_steps(train.checkpoints, train.steps))


def done(path: Path) -> int:
    """How many steps the metrics say are trained; cheap, for progress."""
    try:
        last = (path / "metrics.jsonl").read_text().rstrip().rpartition("\n")[2]
        return int(json.loads(last)["step"])
    except (OSError, ValueError, KeyError):
        return 0


def checkpoint(path: Path, step: int) -> Path:
    """The file of the weights of a step."""
    return path / "checkpoints" / f"step_{step:07d}.safetensors"

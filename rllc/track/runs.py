"""The W&B runs of one sweep: one for each curve and training, and one for the sweep itself."""

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rllc.config import Track
from rllc.track import machine, secrets
from rllc.track.ending import Gone, end, reachable
from rllc.track.turn import Turns

INIT = 30.0  # seconds that W&B may take to open a run
FLUSH = 1.0  # seconds after which what was logged is on the disk, whatever happens to the process
TAG = 64  # letters that W&B takes


@dataclass
class Run:
    """One open W&B run.

    The number of a row is its training step, so a row that is sent twice stays one row.

    Attributes:
        wandb: the run itself.
        first: the first step that the run does not hold yet; above 0 where an earlier run goes on.
        logged: how many rows it was given.
    """

    wandb: Any
    first: int
    logged: int = 0

    def log(self, row: dict[str, Any], step: int) -> None:
        """Append one row of history, unless the run goes on and holds it already."""
        if step >= self.first:
            self.wandb.log(row, step=step, commit=True)
            self.logged += 1


@dataclass
class Runs:
    """The open W&B runs of a sweep on a server; the number of the turn ends the ids of all of them.

    Attributes:
        url: of the server.
        config: of every run.
        complete: whether the run of the sweep was given all it has.
    """

    sweep: Path
    track: Track
    turns: Turns
    url: str
    config: dict[str, Any] = field(default_factory=dict)
    complete: bool = False
    opened: dict[tuple[str, ...], Run] = field(default_factory=dict)

    def point(self, *, run: str, dataset: str, step: int, values: dict[str, float], whole: bool) -> None:
        """Log one step of one curve, or of a training."""
        curve = (run, dataset)
        if curve not in self.opened:
            opened = self._open(curve, "estimate" if dataset else "train", name=f"{run} {dataset or 'training'}")
            opened.wandb.define_metric("step")
            opened.wandb.define_metric("*", step_metric="step")
        self.opened[curve].log({"step": step, **values}, step)
        if not whole:
            self.turns.end()

    def overview(self, *, tables: dict[str, list[dict[str, Any]]], figures: list[str], files: list[str]) -> None:
        """Log the tables, pictures and files of the sweep."""
        import wandb

        run = self._open((), "sweep", name=self.sweep.name)
        shown: dict[str, Any] = {f"figure/{Path(name).stem}": wandb.Image(str(self.sweep / name)) for name in figures}
        for name, rows in secrets.hide(self.portable(tables)).items():
            columns = list(rows[0])
            shown[name] = wandb.Table(columns=columns, data=[[row[column] for column in columns] for row in rows])
        if shown:
            run.log(shown, run.first)
        if files:
            artifact = wandb.Artifact(re.sub(r"[^\w.-]", "-", self.sweep.name), type="estimates")
            for name in files:
                artifact.add_file(str(self.sweep / name), name=name, skip_cache=True)
            run.wandb.log_artifact(artifact)
        self.complete = True

    def close(self) -> list[str]:
        """Complete all runs at once; returns what went wrong, each once."""
        return end({run.wandb: run.logged for run in self.opened.values()})

    def portable(self, value: Any) -> Any:
        """What may be sent: all of it, or what does not tell about this machine."""
        return value if self.track.machine else machine.hide(value, self.sweep.parent.parent)

    def _open(self, curve: tuple[str, ...], job: str, *, name: str) -> Run:
        import wandb

        turn = self.turns.mine
        if turn.mode == "online" and not reachable(self.url):
            raise Gone(self.url)  # said in seconds, where W&B would try until INIT
        run = wandb.init(
            project=self.track.project,
            entity=self.track.entity,
            group=self.sweep.name,
            job_type=job,
            name=name if turn.number == 1 else f"{name} ({turn.number})",
            tags=[tag[:TAG] for tag in dict.fromkeys(["rllc", *filter(None, curve), *self.track.tags])],
            id=f"{_content(turn.sweep, job, curve)}-{turn.number}",
            config={**self.config, "curve": dict(zip(("run", "dataset"), filter(None, curve), strict=False))},
            dir=str(self.sweep),
            mode=turn.mode,
            resume="allow" if turn.mode == "online" else None,
            reinit="create_new",
            settings=_settings(self.track),
        )
        self.opened[curve] = Run(run, run.starting_step)
        return self.opened[curve]


def _content(sweep: str, job: str, curve: tuple[str, ...]) -> str:
    """Name a W&B run by what it shows: sweep, kind and curve."""
    return hashlib.sha256(json.dumps([sweep, job, *curve]).encode()).hexdigest()[:12]


def _settings(track: Track) -> Any:
    """Settings of a run that shows numbers and, unless asked, nothing about the machine or its user."""
    import wandb

    silent: dict[str, Any] = {
        "disable_code": True,
        "disable_git": True,
        "email": "",
        "host": "",
        "program": "rllc",
        "username": "",
        "x_disable_machine_info": True,
        "x_disable_meta": True,
        "x_save_requirements": False,
    }
    return wandb.Settings(
        console="off",
        init_timeout=INIT,
        silent=True,
        x_disable_stats=True,
        x_transaction_log_flush_interval=FLUSH,
        **({} if track.machine else silent),
    )

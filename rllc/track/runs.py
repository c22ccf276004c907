"""The W&B runs of one sweep: one for each curve and one for the sweep itself."""

import hashlib
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rllc.config import Track
from rllc.track import journal, secrets

INIT, FINISH = 20.0, 10.0  # seconds that W&B may take to open a run and to complete it
FLUSH = 2.0  # seconds from there to the end of its file, which W&B does not wait for

_NUMBER = re.compile(r"run-.*-[0-9a-f]{12}-(\d+)$")


@dataclass
class Run:
    """One open W&B run and how many rows it was given."""

    wandb: Any
    logged: int = 0

    def log(self, row: dict[str, Any]) -> None:
        """Append one row of history."""
        self.wandb.log(row)
        self.logged += 1

    def close(self) -> str:
        """Complete the run; returns what went wrong, empty if nothing did."""
        path = Path(self.wandb.settings.sync_file)
        fault = ""
        try:
            self.wandb.finish()
        except TimeoutError:
            fault = f"the upload did not end in {FINISH:.0f} s"
        except Exception as raised:  # whatever W&B raises ends the tracking only
            fault = sentence(raised)
        kept, deadline = journal.rows(path), time.monotonic() + FLUSH
        while kept < self.logged and time.monotonic() < deadline:
            time.sleep(0.1)
            kept = journal.rows(path)
        return fault or (f"only {kept} of {self.logged} rows are on the disk" if kept < self.logged else "")


@dataclass
class Runs:
    """The open W&B runs of a sweep; `number` ends the ids of all of them."""

    sweep: Path
    track: Track
    mode: Literal["online", "offline"]
    number: int
    config: dict[str, Any]
    opened: dict[tuple[str, ...], Run] = field(default_factory=dict)

    def point(self, *, run: str, dataset: str, step: int, values: dict[str, float]) -> None:
        """Log one step of one curve."""
        if (run, dataset) not in self.opened:
            opened = self._open((run, dataset), "estimate", {"curve": {"run": run, "dataset": dataset}})
            opened.wandb.define_metric("step")
            opened.wandb.define_metric("*", step_metric="step")
        self.opened[run, dataset].log({"step": step, **values})

    def overview(self, *, tables: dict[str, list[dict[str, Any]]], figures: list[str], files: list[str]) -> None:
        """Log the tables, pictures and files of the sweep."""
        import wandb

        run = self._open((), "cluster", {})
        shown: dict[str, Any] = {f"figure/{Path(name).stem}": wandb.Image(str(self.sweep / name)) for name in figures}
        for name, rows in secrets.hide(tables).items():
            columns = list(rows[0])
            shown[name] = wandb.Table(columns=columns, data=[[row[column] for column in columns] for row in rows])
        if shown:
            run.log(shown)
        if files:
            artifact = wandb.Artifact(re.sub(r"[^\w.-]", "-", self.sweep.name), type="estimates")
            for name in files:
                artifact.add_file(str(self.sweep / name), name=name, skip_cache=True)
            run.wandb.log_artifact(artifact)

    def close(self) -> list[str]:
        """Complete all runs at once; returns what went wrong, each once."""
        with ThreadPoolExecutor(max(1, len(self.opened))) as pool:
            return sorted({fault for fault in pool.map(Run.close, self.opened.values()) if fault})

    def _open(self, curve: tuple[str, ...], job: str, more: dict[str, Any]) -> Run:
        import wandb

        run = wandb.init(
            project=self.track.project,
            entity=self.track.entity,
            group=self.sweep.name,
            job_type=job,
            name=" ".join(curve) or self.sweep.name,
            id=f"{_content(self.sweep, curve)}-{self.number}",
            config={**self.config, **more},
            dir=str(self.sweep),
            mode=self.mode,
            reinit="create_new",
            settings=_settings(),
        )
        self.opened[curve] = Run(run)
        return self.opened[curve]


def number(sweep: Path) -> int:
    """Next free number at the end of the ids: 1 for the first time, one more for every rewrite."""
    used = [int(found[1]) for path in (sweep / "wandb").iterdir() if (found := _NUMBER.search(path.name))]
    return 1 + max(used, default=0)


def sentence(raised: Exception) -> str:
    """First line of what W&B raised, without secrets."""
    first = (str(raised).splitlines() or [""])[0].rstrip(".")
    return str(secrets.hide(f"{type(raised).__name__}: {first}".removesuffix(": ")))


def _content(sweep: Path, curve: tuple[str, ...]) -> str:
    """Name a W&B run by its content: sweep, plan and curve."""
    plan = sweep / "plan.jsonl"
    digest = hashlib.sha256(plan.read_bytes() if plan.exists() else b"")
    digest.update(json.dumps([sweep.name, *curve]).encode())
    return digest.hexdigest()[:12]


def _settings() -> Any:
    """Settings of a run that shows numbers and nothing about the machine, and never waits for long."""
    import wandb

    return wandb.Settings(
        console="off",
        disable_code=True,
        disable_git=True,
        finish_timeout=FINISH,
        finish_timeout_raises=True,
        host="",
        init_timeout=INIT,
        silent=True,
        x_disable_machine_info=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
    )

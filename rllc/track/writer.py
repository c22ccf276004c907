"""The process that speaks to W&B: reads one JSON object a line from its parent and ends with the input."""

import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from rllc.config import Track
from rllc.track import ending, machine, secrets, turn
from rllc.track.runs import Runs


def main() -> None:
    """Serve standard input; say what the user should know on standard output."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a cluster signals every process; ours ends with its input
    os.nice(10)
    try:
        faults = _write(iter(sys.stdin))
    except turn.Displaced as displaced:
        _say(f"{displaced}.")
        os._exit(0)  # its runs are the other's now
    if faults:
        _say(f"W&B failed: {faults[0]}; the sweep goes on, `rllc track` writes it again.")
        os._exit(1)  # without the exit hooks of wandb, which would wait for its server


def _write(lines: Iterator[str]) -> list[str]:
    """Write all that comes; returns what went wrong."""
    runs, faults = None, []
    try:
        head = json.loads(next(lines))
        sweep = Path(head["sweep"])
        os.chdir(sweep)
        runs = _runs(sweep, Track(**head["track"]), again=head["again"])
        _serve(runs, lines)
    except turn.Displaced:
        raise
    except ending.Gone as gone:
        faults.append(str(gone))
    except Exception as raised:  # whatever W&B raises ends the tracking only
        faults.append(secrets.sentence(raised))
    if runs is None:
        return faults
    faults = list(dict.fromkeys([*faults, *runs.close()]))
    if not faults:
        _leave(runs)
    return faults


def _serve(runs: Runs, lines: Iterable[str]) -> None:
    for line in lines:
        item = json.loads(line)
        runs.turns.check()
        kind = item.pop("kind")
        if kind == "Plan":
            runs.turns.plan(**item)
        elif kind == "Point":
            runs.point(**item)
        else:
            runs.overview(**item)


def _runs(sweep: Path, track: Track, *, again: bool) -> Runs:
    """Prepare the runs: mode, the turn, and the config of the sweep without its secrets and what is local."""
    import wandb

    host = wandb.setup().settings.base_url
    runs = Runs(sweep, track, turn.take(sweep / "wandb", _mode(track, host), again=again), host)
    config, environment = _yaml(sweep / "config.yaml"), _yaml(sweep / "env.json")
    local = () if track.machine else machine.LOCAL
    kept = {name: value for name, value in config.items() if name not in local}
    runs.config = secrets.hide(runs.portable(kept | {"code": environment.get("code", "")}))
    return runs


def _yaml(file: Path) -> dict[str, Any]:
    import yaml

    found = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found if isinstance(found, dict) else {}


def _mode(track: Track, host: str) -> Literal["online", "offline"]:
    """Resolve "auto": what WANDB_MODE says, else online where W&B finds credentials and its server answers."""
    asked = os.environ.get("WANDB_MODE") if track.mode == "auto" else track.mode
    if asked:
        return "online" if asked == "online" else "offline"
    from wandb.sdk.lib import wbauth

    if not wbauth.authenticate_session(host=host, source="rllc", prompt=False):
        return "offline"
    if ending.reachable(host):
        return "online"
    _say(f"{host} does not answer; the W&B runs are written offline.")
    return "offline"


def _leave(runs: Runs) -> None:
    """Remove older offline runs that these replace, and say how these get to the server."""
    if not runs.opened:
        return
    mine = {run.wandb.id for run in runs.opened.values()}
    if runs.complete:
        runs.turns.end()
        for folder in (runs.sweep / "wandb").glob("offline-run-*"):
            if not any(folder.name.endswith(f"-{known}") for known in mine) and not any(folder.glob("*.synced")):
                shutil.rmtree(folder, ignore_errors=True)
    if runs.turns.mine.mode == "offline":
        place = shlex.quote(str(runs.sweep))
        _say(f"W&B was offline; `(cd {place} && wandb sync wandb/offline-run-*-{runs.turns.mine.number})` uploads it.")


def _say(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:  # the parent is gone; the files are complete all the same
        os._exit(0)


if __name__ == "__main__":
    main()

"""The process that speaks to W&B: reads one JSON object a line from its parent and ends with the input."""

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from rllc.config import Track
from rllc.track import secrets
from rllc.track.runs import Runs, number, sentence


def main() -> None:
    """Serve standard input; say what the user should know on standard output."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a cluster signals every process; ours ends with its input
    os.nice(10)
    runs, faults = None, []
    try:
        lines = iter(sys.stdin)
        head = json.loads(next(lines))
        runs = _runs(Path(head["sweep"]), Track(**head["track"]))
        _serve(runs, lines)
    except Exception as raised:  # whatever W&B raises ends the tracking only
        faults.append(sentence(raised))
    if runs is not None:
        faults += runs.close()
        if runs.opened and runs.mode == "offline" and not faults:
            folder = shlex.quote(str(runs.sweep / "wandb"))
            _say(f"W&B was offline; `wandb sync {folder}/offline-run-*-{runs.number}` uploads it.")
    if faults:
        _say(f"W&B failed: {faults[0]}; the sweep goes on, `rllc track` writes it again.")
        os._exit(1)  # without the exit hooks of wandb, which would wait for its server


def _serve(runs: Runs, lines: Iterable[str]) -> None:
    for line in lines:
        item = json.loads(line)
        if item.pop("kind") == "Point":
            runs.point(**item)
        else:
            runs.overview(**item)


def _runs(sweep: Path, track: Track) -> Runs:
    """Prepare the runs: mode, number of this rewrite, and the config of the sweep without its secrets."""
    import yaml

    file = sweep / "config.yaml"
    config = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}
    return Runs(sweep, track, _mode(track), number(sweep), secrets.hide(config))


def _mode(track: Track) -> Literal["online", "offline"]:
    """Resolve "auto": what WANDB_MODE says, else online where W&B finds credentials; no network is used."""
    asked = os.environ.get("WANDB_MODE") if track.mode == "auto" else track.mode
    if asked:
        return "online" if asked == "online" else "offline"
    import wandb
    from wandb.sdk.lib import wbauth

    host = wandb.setup().settings.base_url
    found = wbauth.authenticate_session(host=host, source="rllc", prompt=False)
    return "online" if found else "offline"


def _say(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:  # the parent is gone; the files are complete all the same
        os._exit(0)


if __name__ == "__main__":
    main()

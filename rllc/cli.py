"""The command line: `rllc VERB [overrides]`; Hydra begins and ends here."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rllc import atomic
from rllc.mistake import Mistake, Unfinished, unknown

if TYPE_CHECKING:
    from rllc.config import Config

VERBS = {
    "sweep": "train if needed, estimate every cell of the grid, gather, cluster and report; resumes what is there",
    "train": "train the runs only",
    "status": "done, diverged, failed and missing tasks, and the time left",
    "gather": "collect the results of a sweep into Parquet files",
    "cluster": "group the gathered curves, or those of input=<table>, offline",
    "report": "draw figures and the HTML page from the gathered files, offline",
    "track": "show the gathered results in Weights & Biases again, with track=wandb",
}
HELP = f"""usage: rllc VERB [OVERRIDE ...]

{chr(10).join(f"  {verb:9}{text}" for verb, text in VERBS.items())}

Overrides are Hydra's: sampler=paper, sampler.gamma=100, grid.steps=[0,1600], experiment=seeds, -m sampler.lr=1e-3,2e-3
  rllc sweep --help      the groups and their options
  rllc sweep --cfg job   the whole configuration, resolved
Exit codes: 0 all done; 1 something failed, diverged or is missing; 2 a mistake in what was asked; 130 or 143 stopped.
"""


def main() -> int:
    """Run the verb on the command line; the exit code."""
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if words[0] == "--version":
        from rllc import version

        print(f"rllc {version.code()}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return _dispatch(words[0], words[1:])
    except Mistake as mistake:
        print(f"rllc: {mistake}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("\nrllc: stopped; the same command goes on from here.", file=sys.stderr)
        return 130
    except Unfinished as unfinished:
        print(f"rllc: {unfinished}", file=sys.stderr)
        return 1
    except OSError as error:
        place = error.filename or "disk"
        if error.errno in atomic.FULL:
            print(f"rllc: {place}: {error.strerror}; make room and run it again.", file=sys.stderr)
            return 1
        if error.errno in atomic.REFUSED:
            print(f"rllc: {place}: {error.strerror}; choose another root=.", file=sys.stderr)
            return 2
        raise


def _dispatch(verb: str, overrides: Sequence[str]) -> int:
    from rllc import composition

    verbs = {
        "sweep": _sweep, "train": _train, "status": _status, "gather": _gather, "cluster": _cluster, "report": _report,
        "track": _track,
    }  # fmt: skip
    if verb not in verbs:
        raise unknown("verb", verb, verbs)
    return composition.run(verb, overrides, verbs[verb])


def _sweep(config: "Config") -> int:
    from rllc import sweep

    code = sweep.run(config)
    print(sweep.closing(config))
    return code


def _train(config: "Config") -> int:
    from rllc import sweep

    sweep.check(config)
    sweep.train(config)
    return 0


def _status(config: "Config") -> int:
    from rllc import launch, status, sweep

    found = status.status(sweep.folder(config))
    print(status.describe(found, sweep.folder(config), workers=launch.workers(config.launch)))
    return int(not found.whole)


def _gather(config: "Config") -> int:
    from rllc import sweep

    return sweep.gather_results(config)


def _cluster(config: "Config") -> int:
    from rllc import sweep

    sweep.cluster(config)
    print(sweep.closing(config))
    return 0


def _report(config: "Config") -> int:
    from rllc import sweep

    sweep.draw(config)
    print(sweep.closing(config))
    return 0


def _track(config: "Config") -> int:
    from rllc import sweep

    sweep.track_again(config)
    return 0

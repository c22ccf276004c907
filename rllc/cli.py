"""The command line: `rllc VERB [overrides]`; Hydra begins and ends here."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rllc import atomic
from rllc.mistake import Mistake, Unfinished, unknown

if TYPE_CHECKING:
    from rllc.config import Config

VERBS = {
    "sweep": "train if needed, estimate every cell of the grid, gather, cluster and report; resumes what is there",
    "train": "train the runs only",
    "runs": "what the runs have, with source=, path= or none: steps, parts, what is on this machine; reads no weights",
    "calibrate": "try a grid of ε, γ, nβ on a few cells; recommend a sampler, with its bias, error and price",
    "validate": "estimate where the exact coefficient is known, beside devinterp; a table and a figure",
    "status": "done, diverged, failed and missing tasks, and the time left",
    "gather": "collect the results of a sweep, or of several with merge=[a,b], into Parquet files",
    "cluster": "group the gathered curves, or those of input=<table>, offline",
    "compare": "table how well each metric alone tells the types of heads apart, offline",
    "report": "draw figures and the HTML page from the gathered files, offline",
    "track": "follow a sweep in Weights & Biases until it ends; track.rebuild=true makes its W&B runs anew",
}
ONLY = {"input": ("cluster", "compare", "report"), "merge": ("gather",), "devinterp": ("gather",)}  # keys of some verbs
HELP = f"""usage: rllc VERB [OVERRIDE ...]

{chr(10).join(f"  {verb:10}{text}" for verb, text in VERBS.items())}

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
    sys.unraisablehook = _insist
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


def _insist(lost: "sys.UnraisableHookArgs") -> None:
    """Stop a moment later where a signal arrived inside a destructor or callback, which swallows its exception."""
    stop = lost.exc_value
    if not isinstance(stop, SystemExit | KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return

    def again(*_: object) -> None:
        raise stop

    signal.signal(signal.SIGALRM, again)
    signal.setitimer(signal.ITIMER_REAL, 0.05)


def _dispatch(verb: str, overrides: Sequence[str]) -> int:
    from rllc import composition

    verbs = {
        "sweep": _sweep, "train": _train, "runs": _runs, "calibrate": _calibrate, "validate": _validate,
        "status": _status, "gather": _gather, "cluster": _cluster, "compare": _compare, "report": _report,
        "track": _track,
    }  # fmt: skip
    if verb not in verbs:
        raise unknown("verb", verb, verbs)

    def act(config: "Config") -> int:
        for key, able in ONLY.items():
            if (value := getattr(config, key)) is not None and verb not in able:
                raise Mistake(f"{key}: {value!r} says nothing to `rllc {verb}`, only to rllc {', '.join(able)}.")
        return verbs[verb](config)

    return composition.run(verb, overrides, act)


def _sweep(config: "Config") -> int:
    from rllc import closing, derive, sweep

    if config.launch.dry_run:
        print(f"{sweep.rehearse(config)}; nothing was started")
        return 0
    code = sweep.run(config)
    if text := closing.summary(derive.folder(config)):
        print(text)
    return code


def _train(config: "Config") -> int:
    from rllc import submitting, sweep
    from rllc.config import Slurm

    sweep.check(config)
    if config.launch.dry_run:
        print(f"{submitting.rehearse_training(config)}; nothing was started")
        return 0
    if isinstance(config.launch, Slurm):
        return submitting.train(config, config.launch)
    with sweep.collector(config) as shown:
        sweep.train(config, watch=shown.watch)
        shown.watch(final=True)
    return 0


def _runs(config: "Config") -> int:
    from rllc import catalogue

    print(catalogue.describe(config))
    return 0


def _calibrate(config: "Config") -> int:
    from rllc import calibration

    return calibration.run(config)


def _validate(config: "Config") -> int:
    from rllc import validation

    return validation.run(config)


def _status(config: "Config") -> int:
    from rllc import atomic, derive, status
    from rllc.launch import local, report

    folder = derive.folder(config)
    if not (folder / "plan.jsonl").exists() and atomic.owned(folder):
        print(f"{folder}: at work, but not yet at the chains: there is no plan")
        return 1
    with status.collector_off():
        found = status.status(folder)
        queue = report.look(folder, found.missing)
        print(status.describe(found, folder, workers=queue.workers or local.working(folder)))
    for line in queue.lines:
        print(line)
    return int(not found.whole)


def _gather(config: "Config") -> int:
    from rllc import derive

    if config.merge:
        derive.merge_sweeps(config)
    if config.devinterp:
        from rllc import devinterp_store

        devinterp_store.take(derive.folder(config), Path(config.devinterp))
    return derive.gather_results(config)


def _cluster(config: "Config") -> int:
    from rllc import closing, derive

    derive.cluster(config)
    redraw = "rllc report" if config.input is None else f"rllc report input={config.input}"
    print(f"clustered; `{redraw}` draws the figures again")
    print(closing.summary(derive.folder(config)))
    return 0


def _compare(config: "Config") -> int:
    from rllc import derive, separation

    found = separation.run(derive.folder(config), seed=config.cluster.seed)
    print(separation.describe(found))
    print(f"table     {derive.folder(config) / 'clusters' / 'separation.csv'}")
    return 0


def _report(config: "Config") -> int:
    from rllc import closing, derive

    derive.draw(config)
    print(closing.summary(derive.folder(config)))
    return 0


def _track(config: "Config") -> int:
    import dataclasses

    from rllc import derive, following

    options = dataclasses.replace(config.track, kind="wandb")  # what else could be meant
    if options.rebuild:
        return derive.track_again(dataclasses.replace(config, track=options))
    sweep = derive.folder(config)
    return following.follow(sweep, options, working=lambda: following.working(sweep))

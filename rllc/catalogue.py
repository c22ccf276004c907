"""What a source of runs has, told without loading weights: steps, what is on this machine, the model and its parts."""

import math
from collections.abc import Sequence

from rllc import runs, train
from rllc.config import Config, Model, plain
from rllc.mistake import Mistake
from rllc.models import parts
from rllc.models.layout import names, shapes
from rllc.zoo import folder, places, sources

_SHOWN = 12  # steps that are written out


def describe(config: Config) -> str:
    """A few lines for each run of the configuration; a run on the hub is looked at anew.

    Raises:
        Mistake: a run cannot be had, or a module is measured, which is not made of these parts.
    """
    if config.module is not None:
        raise Mistake("model: module is for `rllc sweep` and what reads its results; its parts are its own names.")
    return "\n".join(_run(config, index, run) for index, run in enumerate(runs.named(config)))


def _run(config: Config, index: int, run: runs.Run) -> str:
    if config.source is not None:
        found = sources.look(config.source, index, run.path)
        here = [step for step, place in found.items() if places.cached(config.source, index, place)]
        saved, model = list(found), sources.model(config.source, index, run.path)
        origin = config.source.path or (config.source.repos or [""])[index]
    elif run.seed is None:
        saved = here = list(folder.checkpoints(run.path))
        model, origin = runs.model(config), str(run.path)
    else:
        saved = train.saved_steps(config.train.checkpoints, config.train.steps)
        here = list(folder.checkpoints(run.path)) if (run.path / "checkpoints").is_dir() else []
        model, origin = config.model, str(run.path)
    return "\n".join(
        [
            f"{run.name}: {origin}",
            f"  {_listed(saved, 'step')}",
            f"  on this machine: {'all' if here == saved else _listed(here, 'step')}",
            f"  model: {', '.join(f'{name} {value}' for name, value in plain(model).items())}",
            f"  parameters: {sum(math.prod(shape) for shape in shapes(model).values()):,}",
            f"  parts: {_parts(model)}",
        ]
    )


def _listed(steps: Sequence[int], what: str) -> str:
    if len(steps) > _SHOWN:
        half = _SHOWN // 2
        shown = [*map(str, steps[:half]), "…", *map(str, steps[-half:])]
    else:
        shown = [str(step) for step in steps]
    return f"{len(steps)} {what}{'s' * (len(steps) != 1)}{': ' * bool(steps)}{', '.join(shown)}"


def _parts(model: Model) -> str:
    """The heads, and the kinds of names beside them; globs over names are parts too."""
    flat = [name for name, _, _ in names(model)]
    heads = parts.heads(flat)
    other = dict.fromkeys(name for name in flat if not parts.HEAD.match(name) and not name[1:2].isdigit())
    inner = dict.fromkeys(f"L*.{name.partition('.')[2]}" for name in flat if name.partition(".")[0][1:].isdigit())
    groups = dict.fromkeys(f"L*G*.{name.partition('.')[2]}" for name in flat if "G" in name.partition(".")[0])
    return f"{len(heads)} heads {heads[0]} to {heads[-1]}; {', '.join([*other, *inner, *groups])}"

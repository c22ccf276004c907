"""Several sweeps of one meaning made into one: their plans united, their results by key."""

import dataclasses
import os
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

from rllc import atomic, kept, meaning, plan, store
from rllc.mistake import Mistake
from rllc.plan import Cell


def merge(sweep: Path, sources: Sequence[Path]) -> str:
    """Unite the sweeps `sources` into `sweep`, which may hold some already; what was done, in a few words.

    A result that is in several of them is taken from the first. Files are shared (hard links) where the file system
    allows it, else copied; the sources stay as they are. A second call does only what is missing.

    Raises:
        Mistake: a source has no plan, is the sweep itself or is given twice, or a name means different things in two
            of them; nothing was written.
    """
    for place, source in enumerate(sources):
        if source == sweep:
            raise Mistake(f"merge: {source} is the sweep that is made itself; name the others only.")
        if source in sources[:place]:
            raise Mistake(f"merge: {source} is named twice; name each sweep once.")
    old = plan.read(sweep)
    plans = {sweep: old} | {source: _rebased(source, sweep) for source in sources}
    _check(plans)
    united: dict[str, Cell] = {}
    for cell in (cell for cells in plans.values() for cell in cells):
        before = united.setdefault(cell.task.key, cell)
        if cell.keep and not before.keep:
            united[cell.task.key] = cell
    whole = sorted(united.values(), key=plan.order)
    if whole != old:
        plan.write(sweep, whole)
    _settings(sweep, sources)
    taken = [_take(sweep, source, united) for source in sources]
    return f"{len(whole)} tasks, {len(whole) - len(old)} of them new; {sum(taken)} results taken"


def _rebased(source: Path, sweep: Path) -> list[Cell]:
    """The plan of a source, its files named from the root of `sweep`."""
    cells, root = plan.read(source), source.parent.parent
    if not cells:
        raise Mistake(f"merge: there is no plan in {source}; legal: sweeps beside {sweep} by name, others by folder.")
    if root == sweep.parent.parent:
        return cells

    def path(name: str) -> str:
        return name and str(root / name)

    return [
        dataclasses.replace(
            cell, checkpoint=path(cell.checkpoint), labels=path(cell.labels),
            rows=cell.rows if cell.make else path(cell.rows),  # of a module: an import path
        )
        for cell in cells
    ]  # fmt: skip


def _check(plans: dict[Path, list[Cell]]) -> None:
    """Compare each plan with those before it."""
    sweeps = list(plans)
    for place, later in enumerate(sweeps):
        for earlier in sweeps[:place]:
            what = meaning.conflicts(*((cell.task for cell in plans[sweep]) for sweep in (earlier, later)))
            if what:
                raise Mistake(
                    f"merge: {earlier} and {later} are of different configurations ({'; '.join(what)}); only sweeps "
                    "of one sampler, with the same text and weights under each name, become one."
                )


def _settings(sweep: Path, sources: Sequence[Path]) -> None:
    """Give a new sweep the settings and versions of the first source, and its own name."""
    import yaml

    settings, versions = sources[0] / "config.yaml", sources[0] / "env.json"
    if settings.exists() and not (sweep / "config.yaml").exists():
        changed = {"name": sweep.name, "merge": [str(source) for source in sources]}
        values = yaml.safe_load(settings.read_text(encoding="utf-8")) | changed
        atomic.write_text(sweep / "config.yaml", yaml.safe_dump(values, sort_keys=False, allow_unicode=True))
    if versions.exists() and not (sweep / "env.json").exists():
        atomic.write_text(sweep / "env.json", versions.read_text(encoding="utf-8"))


def _take(sweep: Path, source: Path, wanted: Collection[str]) -> int:
    """Share the results that are wanted and not there, and their index lines; how many there were."""
    there = store.keys(sweep)
    lines = {key: line for key, line in store.index(source).items() if key in wanted}
    for key in lines:
        _share(kept.path(source, key), kept.path(sweep, key))
        if key not in there:
            _share(store.path(source, key), store.path(sweep, key))
    new = [line for key, line in lines.items() if key not in there]
    if new:
        store.append(sweep, f"merged-{source.name}", new)
    return len(new)


def _share(file: Path, there: Path) -> None:
    """Link or copy a file to where there may be none."""
    if there.exists() or not file.exists():
        return
    there.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, there)
    except OSError:  # another file system, or one without links
        with file.open("rb") as old, atomic.replace(there) as new:
            shutil.copyfileobj(old, new)

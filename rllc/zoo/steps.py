"""Which steps a run has saved: the step is a number in the name of a file, folder or revision."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from rllc.mistake import Mistake

_FILE = re.compile(r".*?(\d+)\.(?:pt|pth|safetensors)|step_(\d+)\.json")
_FOLDER = re.compile(r".*?(\d+)")


def checkpoints(folder: Path) -> dict[int, Path]:
    """The saved steps of a folder, in order, each with its file or folder.

    The step is the last number of the name (`step_0000100.safetensors`, `epoch=3-step=100.pt`). Checkpoints lie in
    `checkpoints/`, else in the folder itself; a folder is one where it holds a config.json (`checkpoint-100/`), and a
    `step_<number>.json` where it points to files kept elsewhere (`rllc.zoo.pointer`).

    Raises:
        Mistake: there is no such folder, no checkpoint in it, or two of one step.
    """
    for place in (folder / "checkpoints", folder):
        if found := once(_numbered(place), str(place)):
            return {step: place / name for step, name in found.items()}
    raise Mistake(
        f"run: {folder} has no checkpoints named …<step>.safetensors, .pt or .pth, and no folders …<step> with a "
        "config.json."
    )


def matching(names: Iterable[str], pattern: str) -> Iterator[tuple[int, str]]:
    """The names that fit a pattern, each with its step: `{step}` is the number, `*` anything but a slash."""
    spelt = {"{step}": r"(?<!\d)(\d+)", "*": r"[^/]*?"}
    pieces = re.split(r"(\{step\}|\*)", pattern)
    fits = re.compile("".join(spelt.get(piece, re.escape(piece)) for piece in pieces))
    return ((int(match[1]), name) for name in names if (match := fits.fullmatch(name)))


def once(found: Iterable[tuple[int, str]], place: str) -> dict[int, str]:
    """The steps in order, each with its name.

    Raises:
        Mistake: two names are of one step.
    """
    steps: dict[int, str] = {}
    for step, name in found:
        if step in steps:
            raise Mistake(f"run: {place} has two files of step {step}: {steps[step]}, {name}.")
        steps[step] = name
    return dict(sorted(steps.items()))


def choose(wanted: Iterable[int], saved: Sequence[int], run: str, match: Literal["exact", "nearest"]) -> list[int]:
    """The wanted steps; with "nearest" the saved one that is nearest to each, the earlier of two, which is then told.

    Raises:
        Mistake: with "exact", a step is not saved.
    """
    chosen, moved = dict[int, None](), []
    for step in wanted:
        there = min(saved, key=lambda one: (abs(one - step), one))
        if there != step and match == "exact":
            raise Mistake(f"grid.steps: step {step} of run {run} is not saved; the nearest saved one is {there}.")
        if there != step:
            moved.append(f"{step} → {there}")
        chosen[there] = None
    if moved:
        print(f"rllc: grid.steps: run {run} lacks {len(moved)} of them; nearest: {', '.join(moved)}", file=sys.stderr)
    return list(chosen)


def _numbered(place: Path) -> Iterator[tuple[int, str]]:
    for path in sorted(place.iterdir()) if place.is_dir() else []:
        if match := _FILE.fullmatch(path.name):
            yield int(match[1] or match[2]), path.name
        elif (match := _FOLDER.fullmatch(path.name)) and (path / "config.json").is_file():
            yield int(match[1]), path.name

"""Runs made elsewhere, on the hub or in a folder: which steps there are, and step s as a pointer to its files."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from rllc import atomic
from rllc.config import Model, Source, differences, plain
from rllc.data import tokenizer
from rllc.mistake import Mistake, at_least
from rllc.zoo import folder, hub, places, pointer
from rllc.zoo.places import Place


def check(source: Source) -> None:
    """Raise Mistake if the fields of a source do not fit together; opens nothing."""
    if (source.repos is None) == (source.path is None):
        raise Mistake("source.repos: give either this, ids of repositories on the hub, or source.path, a folder.")
    if source.repos == [] or len(set(source.repos or [])) < len(source.repos or []):
        raise Mistake(f"source.repos: {source.repos} must hold at least one repository, and none twice.")
    last = [repo.rpartition("/")[2] for repo in source.repos or []]
    if len(set(last)) < len(last):
        raise Mistake(f"source.repos: of {source.repos} two end in the same name; give each a sweep with a run= name.")
    marks = (source.revision + (source.file or "")).count("{step}")
    if marks > 1 or (source.file is not None and "{step}" not in source.file and "{step}" not in source.revision):
        raise Mistake(f"source.file: {source.file!r} with source.revision {source.revision!r} must have {{step}} once.")
    for name, value, least in (("context", source.context, 4), ("bos", source.bos, 0)):
        if value is not None:
            at_least(f"source.{name}", value, least)


def names(source: Source) -> list[str]:
    """The names of the runs: the last part of each repository's id, or the name of the folder."""
    check(source)
    return [repo.rpartition("/")[2] for repo in source.repos or [str(Path(source.path or "").resolve())]]


def saved(source: Source, index: int, run: Path) -> dict[int, Place]:
    """The steps of the index-th run in order, with their places.

    What the hub answers is kept in the run's own folder, and then stays: the sweep sees the same steps always. A folder
    is looked at each time.

    Raises:
        Mistake: it cannot be had, has no checkpoints, or the run's folder holds another run.
    """
    kept = _kept(source, index, run)
    return look(source, index, run) if kept is None or source.repos is None else kept


def look(source: Source, index: int, run: Path) -> dict[int, Place]:
    """As `saved`, but looks again at what there is now.

    Raises:
        Mistake: as `saved` does.
    """
    _kept(source, index, run)
    found = places.found(source, index)
    kept = {"source": _identity(source, index), "steps": {step: dataclasses.asdict(at) for step, at in found.items()}}
    atomic.write_text(run / "source.json", json.dumps(kept, indent=1) + "\n")
    return found


def fetch(source: Source, index: int, run: Path, *, step: int) -> Path:
    """The checkpoint of a step, a file in the run's folder; what is not in the cache yet is downloaded.

    Raises:
        Mistake: it cannot be had, or lacks the weights.
        OSError: the disk is full.
    """
    path = local(run, step)
    if pointer.whole(path):
        return path
    place = saved(source, index, run)[step]
    target = places.target(source, index, place)
    origin = source.path or f"{(source.repos or [])[index]}@{place.revision}"
    model = plain(source.model) if source.model else None
    pointer.write(path, target, origin=f"{origin}/{place.file}".rstrip("/"), model=model)
    return path


def local(run: Path, step: int) -> Path:
    """Where the pointer to a step lies once it was fetched."""
    return run / "checkpoints" / f"step_{step:07d}.json"


def model(source: Source, index: int, run: Path) -> Model:
    """The model of a run, without its weights.

    Raises:
        Mistake: it cannot be had, or is none that can be read.
    """
    if source.model is not None:
        return source.model
    step, place = next(iter(saved(source, index, run).items()))
    if source.repos is None:
        return folder.shape(places.target(source, index, place))
    repo = source.repos[index]
    if "config.json" not in hub.files(repo, place.revision):
        return folder.shape(fetch(source, index, run, step=step))
    return folder.model_of(hub.fetch(repo, place.revision, "config.json"))[0]


def prepare(source: Source, index: int, run: Path) -> None:
    """Copy the run's tokenizer.json into its folder, with the token that starts a row written into it.

    Raises:
        Mistake: there is none, or it cannot be had.
    """
    file = run / "tokenizer.json"
    if file.exists():
        return
    text = _tokenizer(source, index, run).read_text(encoding="utf-8")
    atomic.write_text(file, text if source.bos is None else tokenizer.starting(text, source.bos))


def tokenizer_text(wanted: str, bos: int | None, *, key: str) -> str:
    """The content of a tokenizer.json that is asked for by itself, with the token that starts a row written into it.

    Raises:
        Mistake: it cannot be had, or has no such token; `key` is the section of the configuration that asks.
    """
    text = _named(wanted, f"{key}.tokenizer").read_text(encoding="utf-8")
    return text if bos is None else tokenizer.starting(text, bos, key=key)


def _named(wanted: str, key: str) -> Path:
    """A tokenizer.json, or that of a folder or a repository."""
    for path in (Path(wanted), Path(wanted, "tokenizer.json")):
        if path.is_file():
            return path
    return hub.fetch(wanted, "main", "tokenizer.json", key=key)


def _tokenizer(source: Source, index: int, run: Path) -> Path:
    if source.tokenizer is not None:
        return _named(source.tokenizer, "source.tokenizer")
    _, place = next(reversed(saved(source, index, run).items()))
    if source.repos is None:
        target = places.target(source, index, place)
        beside = [
            at / "tokenizer.json" for at in (target, target.parent, target.parent.parent, Path(source.path or ""))
        ]
        if found := next((path for path in beside if path.is_file()), None):
            return found
        raise Mistake(
            f"source.tokenizer: null, and there is no tokenizer.json in {source.path} or beside its checkpoints."
        )
    repo = source.repos[index]
    for revision in dict.fromkeys((place.revision, "main")):
        if "tokenizer.json" in hub.files(repo, revision):
            return hub.fetch(repo, revision, "tokenizer.json")
    raise Mistake(f"source.tokenizer: null, and {repo} has no tokenizer.json; name a repository or a file.")


def _kept(source: Source, index: int, run: Path) -> dict[int, Place] | None:
    """The steps that were seen before, and a mistake where the folder is another run's.

    None where none were, or where another tokenizer or first token was asked for that never came here.
    """
    if (run / "config.yaml").exists():
        raise Mistake(f"run: {run} holds a run that was trained here; choose another run= name.")
    listing, mine = run / "source.json", _identity(source, index)
    if not listing.exists():
        return None
    kept, tokens = json.loads(listing.read_text(encoding="utf-8")), {name: mine[name] for name in ("tokenizer", "bos")}
    if what := differences(kept["source"], mine, "source"):
        if {**kept["source"], **tokens} == mine and not (run / "tokenizer.json").exists():
            return None
        raise Mistake(f"run: {run} holds another run ({'; '.join(what)}); choose another run= name.")
    return {int(step): Place(**place) for step, place in kept["steps"].items()}


def _identity(source: Source, index: int) -> dict[str, Any]:
    """What tells the run of a folder from another one: where it comes from, and how its files are read."""
    path = source.path and str(Path(source.path).resolve())
    return {
        "repos": source.repos and source.repos[index], "path": path, "revision": source.revision, "file": source.file,
        "model": source.model and plain(source.model), "tokenizer": source.tokenizer, "bos": source.bos,
    }  # fmt: skip

"""Where the steps of a run made elsewhere are: files or revisions of a repository on the hub, or names in a folder."""

from dataclasses import dataclass
from pathlib import Path

from rllc.config import Source
from rllc.mistake import Mistake
from rllc.zoo import arrays, hub, steps

ONLY = 0  # the step of a model that has one checkpoint


@dataclass(frozen=True)
class Place:
    """Where one step is: a revision and a file in it; the file is "" for those that transformers writes."""

    revision: str
    file: str


def found(source: Source, index: int) -> dict[int, Place]:
    """The steps of the index-th run of a source in order, with their places, as they are now.

    Raises:
        Mistake: it cannot be had, or has no checkpoints.
    """
    return _in_folder(source) if source.repos is None else _on_hub(source, source.repos[index])


def target(source: Source, index: int, place: Place) -> Path:
    """The file or folder of a checkpoint on this machine, downloaded where it is not here yet.

    Raises:
        Mistake: it cannot be had, or lacks the weights.
        OSError: the disk is full.
    """
    if source.repos is None:
        return Path(source.path or "").resolve() / place.file
    repo = source.repos[index]
    there = hub.files(repo, place.revision) if not (place.file and source.model) else []
    if place.file:
        if "config.json" in there:
            hub.fetch(repo, place.revision, "config.json")
        return hub.fetch(repo, place.revision, place.file)
    weights = next((name for name in (*arrays.WHOLE, *arrays.INDICES) if name in there), None)
    if weights is None or "config.json" not in there:
        lacking = "config.json" if weights else f"the weights ({', '.join(arrays.WHOLE)}, or an index of several)"
        raise Mistake(f"source.revision: {repo} at revision {place.revision} lacks {lacking}; it has {_some(there)}.")
    path = hub.fetch(repo, place.revision, weights)
    for name in arrays.sharded(path.read_bytes(), f"{repo}/{weights}") if weights in arrays.INDICES else []:
        hub.fetch(repo, place.revision, name)
    return hub.fetch(repo, place.revision, "config.json").parent


def cached(source: Source, run: int, place: Place) -> bool:
    """Whether the files of a step are on this machine; asks nobody."""
    if source.repos is None:
        return True
    repo, revision = source.repos[run], place.revision
    if place.file:
        return hub.cached(repo, revision, [place.file])
    wanted = [[name] for name in arrays.WHOLE]
    for name in arrays.INDICES:
        if index := hub.kept(repo, revision, name):
            wanted.append(arrays.sharded(index.read_bytes(), f"{repo}/{name}"))
    return any(hub.cached(repo, revision, [*names, "config.json"]) for names in wanted)


def _on_hub(source: Source, repo: str) -> dict[int, Place]:
    if source.file is not None and "{step}" in source.file:
        named = steps.matching(hub.files(repo, source.revision), source.file)
        places = {step: Place(source.revision, name) for step, name in steps.once(named, repo).items()}
    elif "{step}" in source.revision:
        named = steps.matching(hub.revisions(repo), source.revision)
        places = {step: Place(name, source.file or "") for step, name in steps.once(named, repo).items()}
    else:
        hub.files(repo, source.revision)  # a mistake in its name is told now
        places = {ONLY: Place(source.revision, "")}
    if not places:
        key, pattern = ("file", source.file) if source.file else ("revision", source.revision)
        raise Mistake(f"source.{key}: {repo} has nothing named {pattern!r}.")
    return places


def _in_folder(source: Source) -> dict[int, Place]:
    root = Path(source.path or "").resolve()
    if source.file is None:
        return {step: Place("", str(path.relative_to(root))) for step, path in steps.checkpoints(root).items()}
    paths = sorted(root.glob(source.file.replace("{step}", "*")))
    named = steps.matching((path.relative_to(root).as_posix() for path in paths), source.file)
    places = {step: Place("", name) for step, name in steps.once(named, str(root)).items()}
    if not places:
        raise Mistake(f"source.file: {root} has nothing named {source.file!r}.")
    return places


def _some(names: list[str]) -> str:
    return ", ".join(names[:10]) + (", …" if len(names) > 10 else "") if names else "no files"

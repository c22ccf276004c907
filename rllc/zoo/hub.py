"""What is asked of the hub: which files and revisions a repository has, and single files of it, kept in its cache."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rllc.hub import Unreached, said

if TYPE_CHECKING:
    from huggingface_hub import HfApi

PATIENCE = 20.0  # seconds to wait for an answer


def revisions(repo: str) -> list[str]:
    """The names of all branches and tags; without a network, of those that are in the cache.

    Raises:
        Mistake: there is no such repository, it is gated, or neither reached nor in the cache.
    """
    try:
        with said(repo):
            found = _api().list_repo_refs(repo)
            return [ref.name for ref in [*found.branches, *found.tags]]
    except Unreached as unreached:
        refs = _cache(repo) / "refs"
        kept = [path.relative_to(refs).as_posix() for path in sorted(refs.rglob("*")) if path.is_file()]
        if not kept:
            raise unreached from None
        return kept


def files(repo: str, revision: str) -> list[str]:
    """The names of all files of a revision; without a network, of those that are in the cache.

    Raises:
        Mistake: there is no such repository or revision, it is gated, or neither reached nor in the cache.
    """
    try:
        with said(repo, revision):
            info = _api().model_info(
                repo, revision=revision, timeout=PATIENCE
            )  # the call that lists files retries for long
            return sorted(file.rfilename for file in info.siblings or [])
    except Unreached as unreached:
        snapshot = _snapshot(repo, revision)
        kept = [path.relative_to(snapshot).as_posix() for path in snapshot.rglob("*") if path.is_file()]
        if not kept:
            raise unreached from None
        return sorted(kept)


def fetch(repo: str, revision: str, name: str, *, key: str = "source.repos") -> Path:
    """A file's place in the cache, downloaded if it is not there.

    Raises:
        Mistake: there is no such repository, revision or file, it is gated, or neither reached nor in the cache.
        OSError: the disk is full.
    """
    with said(repo, revision, name, key=key):
        from huggingface_hub import hf_hub_download, try_to_load_from_cache

        kept = try_to_load_from_cache(repo, name, revision=revision)
        if isinstance(kept, str):  # asking whether there is a newer one would need the network each time
            return Path(kept)
        return Path(hf_hub_download(repo, name, revision=revision))


def cached(repo: str, revision: str, names: Iterable[str]) -> bool:
    """Whether all files are in the cache; asks nobody."""
    return all(kept(repo, revision, name) for name in names)


def kept(repo: str, revision: str, name: str) -> Path | None:
    """A file in the cache, if it is there; asks nobody."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repo, name, revision=revision)
    return Path(found) if isinstance(found, str) else None


def _api() -> "HfApi":
    from huggingface_hub import HfApi

    return HfApi()


def _cache(repo: str) -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"


def _snapshot(repo: str, revision: str) -> Path:
    """The folder of a revision in the cache, which need not be there."""
    commit = revision
    with suppress(OSError):
        commit = (_cache(repo) / "refs" / revision).read_text().strip()
    return _cache(repo) / "snapshots" / Path(commit).name

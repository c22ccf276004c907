"""Datasets of the hub: which files one has, found by the `datasets` library; they are streamed, not downloaded."""

from pathlib import Path
from typing import Any

from rllc import hub
from rllc.config import Dataset
from rllc.data.shards import Remote, Shard
from rllc.mistake import Mistake, words

KINDS = (".jsonl", ".json", ".jsonl.gz", ".json.gz", ".jsonl.zst", ".json.zst", ".parquet", ".txt")

# Sets that are known not to serve, with what does.
REFUSED = {
    "EleutherAI/pile": "it needs a script, and its files are gone; take data=pile_uncopyrighted",
    "EleutherAI/the_pile": "it needs a script, and its files are gone; take data=pile_uncopyrighted",
    "bigcode/the-stack": "it is gated; take data=github_code",
    "bigcode/the-stack-dedup": "it is gated; take data=github_code",
    "bigcode/the-stack-smol": "it is gated; take data=github_code",
    "codeparrot/github-code": "it needs a script; take data=github_code, which reads its conversion to Parquet",
    "timaeus/pile-gutenberg_pg-19": "it has two documents only; take another subset of the Pile",
}


def check(dataset: Dataset) -> None:
    """Raise Mistake for a dataset that is known not to serve; asks nobody."""
    assert dataset.path is not None
    if (reason := REFUSED.get(dataset.path)) and dataset.files is None:
        raise Mistake(f"path: {dataset.path} cannot be used: {reason}.")


def files(dataset: Dataset) -> list[Shard]:
    """The files of a split, in the order of their names, at the commit that is there now.

    Raises:
        Mistake: the dataset, its configuration, revision, split or files are not there; it is gated, needs a script, or
            cannot be reached.
    """
    check(dataset)
    splits = _builder(dataset).config.data_files or {}
    if dataset.split not in splits:
        raise Mistake(f"split: {dataset.path} has no split {dataset.split!r}; it has: {', '.join(map(str, splits))}.")
    urls = sorted(str(url) for url in splits[dataset.split])
    for url in urls:
        if not url.lower().endswith(KINDS):
            raise Mistake(f"path: {url} of {dataset.path} is none of: {', '.join(KINDS)}.")
    return [Remote(url) if "://" in url else Path(url) for url in urls]


def _builder(dataset: Dataset) -> Any:
    """What `datasets` makes of a dataset before it loads anything."""
    try:
        import datasets
        from datasets import exceptions
    except ImportError:
        raise Mistake(f"path: {dataset.path!r} needs the package datasets: install rllc[hub].") from None
    path = dataset.path or ""
    try:
        with hub.said(path, dataset.revision or "main", key="path"):
            return datasets.load_dataset_builder(
                path, dataset.subset, revision=dataset.revision, data_files=dataset.files
            )
    except hub.Unreached:
        raise _unreached(path) from None
    except exceptions.DatasetNotFoundError as error:
        if "gated" in str(error):
            raise Mistake(
                f"path: {path} is gated: accept its terms on its page, then set HF_TOKEN or run `hf auth login`; "
                "data=github_code and data=pile_uncopyrighted are not."
            ) from None
        what = f"revision {dataset.revision!r} of {path}" if "Revision" in str(error) else f"dataset {path}"
        raise Mistake(f"path: there is no {what} on the hub, or it is private and HF_TOKEN is not set.") from None
    except RuntimeError as error:
        if "scripts are no longer supported" not in str(error):
            raise
        raise Mistake(
            f"path: {path} needs a script, which is never run; where the hub converted it, give revision: "
            "refs/convert/parquet with files: <subset>/<split>/*.parquet, as conf/data/github_code.yaml does."
        ) from None
    except ValueError as error:
        raise Mistake(f"subset: {dataset.subset!r} of {path}: {words(error)}.") from None
    except FileNotFoundError as error:
        raise Mistake(f"path: {path} has no such files that can be read ({words(error)}).") from None


def _unreached(path: str) -> Mistake:
    return Mistake(
        f"path: {path} cannot be reached, and no rows of it were made here yet; where there is a network, run the same "
        "command with stages=[train,plan] and the same root=, whose data/ then holds the rows."
    )

"""Token distributions, and what stands in for their own next tokens."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Labels:
    """Another model, whose next-token distribution q replaces the text's own next tokens.

    `checkpoint` is a file, or run@step of a run under root/runs; `kind` is "kl", KL(q‖p), or "ce", H(q, p).
    """

    checkpoint: str
    kind: Literal["kl", "ce"] = "kl"


@dataclass(frozen=True)
class Dataset:
    """One token distribution: where its text comes from and how many estimation rows it keeps.

    Attributes:
        source: "stdlib" is the standard library of the running Python, "files" the user's own text, "hub" a dataset of
            the hub, "mixture" several other datasets; "repeats" are random tokens said twice, "dyck" balanced brackets,
            "ngrams" what the token statistics of another dataset give.
        mix: weights of "prose" and "code" for "stdlib"; of the names of datasets for "mixture"; "ngrams" has one.
        path: file or folder; for "hub" the id of a dataset, as NeelNanda/pile-10k, or a folder laid out as one.
        text: field of a record that holds the text.
        where: keeps only records with this value in a field, as `meta.pile_set_name == "Github"`; dots lead into
            nested fields, and a list has the value if it contains it.
        limit: takes the first documents only.
        pool: estimation rows kept at most.
        subset: name of a configuration of a dataset of the hub; null for its only one.
        split: of a dataset of the hub.
        revision: of a dataset of the hub.
        files: pattern of its files, where they are not those it declares itself.
        order: n of "ngrams": each token given the n − 1 before it.
        of: the datasets that `mix` names; filled in, never given.
        labels: the model whose predictions are the labels; null for the text's own next tokens.
    """

    source: Literal["stdlib", "files", "hub", "mixture", "repeats", "dyck", "ngrams"]
    mix: dict[str, float] | None = None
    path: str | None = None
    text: str = "text"
    where: str | None = None
    limit: int | None = None
    pool: int = 1024
    labels: Labels | None = None
    subset: str | None = None
    split: str = "train"
    revision: str | None = None
    files: str | None = None
    order: int = 2
    of: "dict[str, Dataset] | None" = None

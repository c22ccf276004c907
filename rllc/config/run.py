"""Training runs: trained here, or made elsewhere."""

from dataclasses import dataclass
from typing import Literal

from rllc.config.model import Model


@dataclass(frozen=True)
class Schedule:
    """Which steps are saved: multiples of `every`, and `log` log-spaced ones; the first and the last always."""

    every: int
    log: int


@dataclass(frozen=True)
class Train:
    """AdamW training of one run for each of `seeds`.

    `repeats` is the share of training rows that are replaced by one real span tiled over the window. `processes` share
    the rows of each batch, null for one for each GPU that is seen; free to change between resumptions. `tokenizer` is a
    repository on the hub or a tokenizer.json, null to make one from the training text; `bos` the id of the token that
    starts a row there, where the file does not say it.
    """

    data: str
    seeds: list[int]
    steps: int
    batch: int
    lr: float
    warmup: int
    betas: list[float]
    weight_decay: float
    clip: float
    repeats: float
    checkpoints: Schedule
    processes: int | None = None
    tokenizer: str | None = None
    bos: int | None = None


@dataclass(frozen=True)
class Source:
    """A training run that was made elsewhere: where its checkpoints are, and how they are to be read.

    Attributes:
        repos: ids of repositories on the hub, as EleutherAI/pythia-70m; each is a run of its own.
        path: a folder, in place of `repos`.
        revision: of the repositories; "{step}" in it stands for the step, as step{step}.
        file: pattern of the checkpoints' names in the repository or folder, "{step}" for the step and * for anything
            but a slash; null for the file or files that transformers writes, or any names in a folder.
        model: of state dicts in TransformerLens keys that have no config.json beside them.
        tokenizer: a repository, or a tokenizer.json, where the run itself has none.
        bos: id of the token that starts a row, where the tokenizer does not say it.
        context: tokens of a row; null for the model's n_ctx.
        match: "exact" refuses steps of the grid that are not there, "nearest" takes the nearest that are.
    """

    repos: list[str] | None = None
    path: str | None = None
    revision: str = "main"
    file: str | None = None
    model: Model | None = None
    tokenizer: str | None = None
    bos: int | None = None
    context: int | None = None
    match: Literal["exact", "nearest"] = "exact"

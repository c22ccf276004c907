"""The checkpoint whose predictions replace the labels of a dataset: found, and checked against the model measured."""

import re
from pathlib import Path

from rllc.config import Config, Model
from rllc.data import tokenizer
from rllc.mistake import Mistake
from rllc.zoo import folder


def find(config: Config, dataset: str, model: Model, bpe: Path) -> tuple[str, Path | None]:
    """The `Task.loss` of a dataset and the file of its labels; ("", None) for the text's own next tokens.

    `bpe` is the tokenizer.json of the model measured.

    Raises:
        Mistake: the checkpoint is not there, or of another vocabulary, a shorter context or another tokenizer.
    """
    labels = config.data[dataset].labels
    if labels is None:
        return "", None
    key = f"data.{dataset}.labels.checkpoint"
    path = _file(Path(config.root, "runs"), labels.checkpoint, key)
    other, digest = folder.describe(path)
    for name in ("d_vocab", "n_ctx"):
        mine, theirs = getattr(model, name), getattr(other, name)
        if theirs < mine or (name == "d_vocab" and theirs != mine):
            raise Mistake(f"{key}: {path} has {name} {theirs}, but the model measured has {mine}.")
    if (beside := tokenizer.beside(path)) and tokenizer.digest(beside) != tokenizer.digest(bpe):
        raise Mistake(f"{key}: {path} was trained on the tokens of {beside}, which is not the tokenizer {bpe}.")
    return f"{labels.kind}:{digest}", path


def _file(runs: Path, checkpoint: str, key: str) -> Path:
    match = re.fullmatch(r"(.+)@(\d+)", checkpoint)
    if match is None or Path(checkpoint).exists():
        if not Path(checkpoint).is_file():
            raise Mistake(f"{key}: {checkpoint!r} is neither a file nor run@step of a run in {runs}.")
        return Path(checkpoint)
    saved = folder.checkpoints(runs / match[1])
    if int(match[2]) not in saved:
        steps = ", ".join(str(step) for step in saved)
        raise Mistake(f"{key}: step {match[2]} of run {match[1]} is not saved; saved are {steps}.")
    return saved[int(match[2])]

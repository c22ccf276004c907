"""Byte-level BPE tokenizers: trained on the training split, kept as one tokenizer.json."""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rllc import atomic
from rllc.mistake import Mistake

BOS = "<|bos|>"
_KNOWN = (BOS, "<|endoftext|>", "<s>")  # what tokenizers made elsewhere call it
_BYTES = 256


@dataclass(frozen=True)
class Tokenizer:
    """A loaded tokenizer.

    Attributes:
        bpe: the `tokenizers.Tokenizer`.
        d_vocab: the largest id plus one, special tokens included.
        bos: id of the token that starts a row and separates documents.
        digest: 16 hexadecimal digits of the SHA-256 of the file.
    """

    bpe: Any
    d_vocab: int
    bos: int
    digest: str

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode texts to ids; no special token is added, and one that is spelt out in a text is plain text."""
        return [encoding.ids for encoding in self.bpe.encode_batch_fast(texts, add_special_tokens=False)]

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to text, special tokens left out."""
        text: str = self.bpe.decode([int(token) for token in ids])
        return text


def train(documents: Iterable[str], d_vocab: int, path: Path) -> Tokenizer:
    """Train a byte-level BPE of exactly `d_vocab` entries, write it to `path`, and load it.

    The last id is the special token `BOS`. The same documents give the same file. Raises Mistake if `d_vocab` leaves
    no room for the bytes and BOS, or is more than the text has merges for.
    """
    if d_vocab < _BYTES + 1:
        raise Mistake(f"model.d_vocab: {d_vocab} is too small: 256 bytes and one special token need at least 257.")
    _single_thread()
    from tokenizers import Tokenizer as Bpe
    from tokenizers import decoders, models, pre_tokenizers, trainers

    bpe = Bpe(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe.train_from_iterator(
        documents,
        trainers.BpeTrainer(vocab_size=d_vocab - 1, initial_alphabet=alphabet, special_tokens=[], show_progress=False),
    )
    bpe.add_special_tokens([BOS])
    if bpe.get_vocab_size() != d_vocab:
        raise Mistake(f"model.d_vocab: {d_vocab} is too large: the text gives only {bpe.get_vocab_size()} entries.")
    with atomic.replace(path) as file:
        file.write(bpe.to_str(pretty=True).encode())
    return load(path)


def load(path: Path) -> Tokenizer:
    """Load a tokenizer.json.

    BOS is what the file itself puts before a text, else the first of a few usual names that it has, else its last id.

    Raises Mistake if the file is missing or not a tokenizer.
    """
    found = digest(path)
    _single_thread()
    from tokenizers import Tokenizer as Bpe

    try:
        text = path.read_text(encoding="utf-8")
        bpe = Bpe.from_str(text)
    except Exception as error:  # the library raises bare Exception for whatever is wrong
        raise Mistake(f"tokenizer: {path} is not a tokenizer file of the tokenizers library ({error}).") from error
    bpe.encode_special_tokens = True
    bpe.no_truncation()
    bpe.no_padding()
    d_vocab = 1 + max(bpe.get_vocab().values(), default=0)
    ids = [*_first(json.loads(text).get("post_processor")), *(bpe.token_to_id(name) for name in _KNOWN)]
    return Tokenizer(bpe, d_vocab, next((i for i in ids if i is not None), d_vocab - 1), found)


def starting(text: str, bos: int, *, key: str = "source") -> str:
    """The content of a tokenizer.json that puts the token `bos` before a text.

    Raises:
        Mistake: it has no such token; `key` is the section of the configuration that asks for it.
    """
    from tokenizers import Tokenizer as Bpe

    try:
        bpe = Bpe.from_str(text)
    except Exception as error:  # the library raises bare Exception for whatever is wrong
        raise Mistake(f"{key}.tokenizer: it is not a tokenizer file of the tokenizers library ({error}).") from error
    known = {place: token for token, place in bpe.get_vocab().items()}
    if (token := known.get(bos)) is None:
        raise Mistake(f"{key}.bos: {bos} is no token of the tokenizer; legal: {min(known)} to {max(known)}.")
    start, body = {"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    template = {
        "type": "TemplateProcessing", "single": [start, body],
        "pair": [start, body, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [bos], "tokens": [token]}},
    }  # fmt: skip
    return json.dumps({**json.loads(text), "post_processor": template}, ensure_ascii=False)


def beside(checkpoint: Path) -> Path | None:
    """The tokenizer.json in a checkpoint's folder or the one above it; None where there is none."""
    files = (folder / "tokenizer.json" for folder in (checkpoint.parent, checkpoint.parent.parent))
    return next((file for file in files if file.exists()), None)


def digest(path: Path) -> str:
    """Hash a tokenizer file without loading it: 16 hexadecimal digits; raise Mistake if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise Mistake(f"tokenizer: {path} cannot be read ({error.strerror}).") from error


def _first(processor: Any) -> list[int]:
    """The token that a tokenizer's own post-processor puts before a text; empty where there is none."""
    if not isinstance(processor, dict):
        return []
    if processor.get("type") == "Sequence":
        return [token for inner in processor["processors"] for token in _first(inner)]
    if processor.get("type") != "TemplateProcessing" or "SpecialToken" not in processor["single"][0]:
        return []
    ids: list[int] = processor["special_tokens"][processor["single"][0]["SpecialToken"]["id"]]["ids"]
    return ids[:1]


def _single_thread() -> None:
    """Keep the library to one thread, as all other work here, unless the environment says otherwise."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

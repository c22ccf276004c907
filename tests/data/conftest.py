import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rllc.config import Dataset
from rllc.data import tokenizer

WORDS = "loss head layer token sample weight chain draw step part trace value error basin def return for in if"


def sentences(count: int, seed: int = 0) -> list[str]:
    """Make documents of 5–60 words and numbers, the same for the same seed; no two rows of them are alike."""
    rng = random.Random(seed)
    return [
        " ".join(f"{rng.choice(WORDS.split())} {rng.randrange(10**6)}" for _ in range(rng.randint(3, 30))) + "\n"
        for _ in range(count)
    ]


@pytest.fixture
def texts() -> list[str]:
    return sentences(600)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Dataset]:
    """Write texts as JSON lines and return the dataset that reads them."""

    def to(texts: list[str], name: str = "text.jsonl", **options: object) -> Dataset:
        path = tmp_path / name
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        return Dataset("files", path=str(path), **options)  # type: ignore[arg-type]

    return to


@pytest.fixture(scope="session")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a tokenizer of 300 entries."""
    path = tmp_path_factory.mktemp("bpe") / "tokenizer.json"
    tokenizer.train(sentences(200), 300, path)
    return path

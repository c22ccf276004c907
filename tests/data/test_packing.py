from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from rllc.data import packing, tokenizer


def whole(blocks: Iterable[packing.Tokens]) -> packing.Tokens:
    return np.concatenate([*blocks])


def test_rows_are_the_documents_joined_by_bos(bpe: Path, texts: list[str]) -> None:
    loaded = tokenizer.load(bpe)
    rows = whole(packing.pack(iter(texts), loaded, 17))
    stream = [token for ids in loaded.encode(texts) for token in [*ids, loaded.bos]][:-1]
    full = len(stream) // 16
    assert rows.shape == (full, 17)
    assert (rows[:, 0] == loaded.bos).all()
    assert rows[:, 1:].ravel().tolist() == stream[: 16 * full]


def test_rows_decode_to_the_text(bpe: Path, texts: list[str]) -> None:
    loaded = tokenizer.load(bpe)
    rows = whole(packing.pack(texts, loaded, 33))
    joined = "".join(texts)
    decoded = loaded.decode(rows[:, 1:].ravel())
    assert joined.startswith(decoded)
    assert len(decoded) > len(joined) - 200


def test_too_little_text_gives_no_row(bpe: Path) -> None:
    for texts in ([], ["a"], ["ab", "cd"]):
        assert not any(len(block) for block in packing.pack(texts, tokenizer.load(bpe), 100))


def test_the_type_follows_the_vocabulary() -> None:
    assert [packing.dtype(n) for n in (257, 65536, 65537)] == [np.uint16, np.uint16, np.uint32]


def _part(number: int, size: int) -> packing.Tokens:
    return np.stack([np.full(size, number), np.arange(size)], axis=1).astype(np.uint16)


def test_cycled_keeps_every_row_and_the_weights_everywhere() -> None:
    rows = whole(packing.cycled([_part(0, 30), _part(1, 7), _part(2, 10)], [3.0, 2.0, 1.0]))
    counts = np.bincount(rows[:, 0])
    assert counts.tolist() == [30, 20, 10]
    assert rows[rows[:, 0] == 0, 1].tolist() == list(range(30))
    assert rows[rows[:, 0] == 1, 1].tolist() == [i % 7 for i in range(20)]
    for number, share in enumerate((1 / 2, 1 / 3, 1 / 6)):
        ahead = np.cumsum(rows[:, 0] == number) - share * np.arange(1, 61)
        assert np.abs(ahead).max() <= 1


def test_the_size_of_the_blocks_changes_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [_part(0, 30), _part(1, 7), _part(2, 10)]
    rows = whole(packing.cycled(parts, [3.0, 2.0, 1.0])).tolist()
    monkeypatch.setattr(packing, "_ROWS", 7)
    assert whole(packing.cycled(parts, [3.0, 2.0, 1.0])).tolist() == rows


def test_capped_keeps_the_weights_and_repeats_nothing() -> None:
    rows = whole(packing.capped([_part(0, 30), _part(1, 7)], [1.0, 1.0]))
    assert np.bincount(rows[:, 0]).tolist() == [7, 7]
    assert len(np.unique(rows, axis=0)) == 14
    assert whole(packing.capped([_part(0, 5)], [2.0])).tolist() == _part(0, 5).tolist()


def test_a_component_without_rows_leaves_nothing() -> None:
    for mix in (packing.cycled, packing.capped):
        assert not any(len(block) for block in mix([_part(0, 5), _part(1, 0)], [1.0, 1.0]))


def test_unseen_drops_exactly_the_training_rows() -> None:
    rows = _part(0, 6)
    assert packing.unseen(rows, rows[[1, 4, 4]]).tolist() == [0, 2, 3, 5]
    with pytest.raises(AssertionError):
        packing.unseen(rows, rows[:, :1])

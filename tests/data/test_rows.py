import dataclasses
import hashlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rllc.config import Dataset
from rllc.data import documents, packing, rows, split, stdlib, tokenizer
from rllc.mistake import Mistake

Write = Callable[..., Dataset]


def _build(dataset: Dataset, bpe: Path, folder: Path, **options: Any) -> rows.Rows:
    return rows.build("mine", dataset, **{"tokenizer": bpe, "n_ctx": 16, "split": "train", "folder": folder, **options})


def _known(array: packing.Tokens) -> set[bytes]:
    return {row.tobytes() for row in array}


def test_training_rows_are_the_packed_training_split(tmp_path: Path, bpe: Path, write: Write, texts: list[str]) -> None:
    dataset = write(texts)
    made = _build(dataset, bpe, tmp_path)
    train = [text for text in texts if split.side(text) == "train"]
    assert (made.array() == np.concatenate([*packing.pack(train, tokenizer.load(bpe), 16)])).all()
    assert made.array().dtype == np.uint16
    assert not made.array().flags.writeable


def test_name_and_digest_are_those_of_the_content(tmp_path: Path, bpe: Path, write: Write, texts: list[str]) -> None:
    made = _build(write(texts), bpe, tmp_path / "rows")
    array = np.load(made.path)
    digest = hashlib.sha256(f"<u2:{array.shape}:".encode() + array.tobytes()).hexdigest()[:16]
    assert made == rows.Rows("mine", digest, tmp_path / "rows" / f"mine-{digest}.npy")
    assert sorted(path.name for path in (tmp_path / "rows").iterdir()) == [made.path.name, "recipes"]


def test_the_pool_shares_no_row_with_training(tmp_path: Path, bpe: Path, write: Write, texts: list[str]) -> None:
    texts = [text for text in texts for _ in range(1 + (split.side(text) == "train"))]
    dataset = write(texts)
    train = _build(dataset, bpe, tmp_path)
    pool = _build(dataset, bpe, tmp_path, split="pool", exclude=train.path, at_least=32)
    assert not _known(pool.array()) & _known(train.array())
    pool_texts = [text for text in texts if split.side(text) == "pool"]
    whole = np.concatenate([*packing.pack(pool_texts, tokenizer.load(bpe), 16)])
    assert _known(pool.array()) == _known(whole)
    assert pool.array().tolist() != whole.tolist()  # shuffled


def test_rows_equal_to_training_rows_are_dropped(tmp_path: Path, bpe: Path, write: Write, texts: list[str]) -> None:
    dataset = write(texts)
    whole = _build(dataset, bpe, tmp_path, split="pool")
    training = rows.put("train", np.asarray(whole.array())[::3], tmp_path)
    pool = _build(dataset, bpe, tmp_path, split="pool", exclude=training.path)
    assert _known(pool.array()) == _known(whole.array()) - _known(training.array())


def test_the_pool_is_capped_after_the_shuffle(tmp_path: Path, bpe: Path, write: Write, texts: list[str]) -> None:
    whole = _build(write(texts), bpe, tmp_path, split="pool").array()
    capped = _build(write(texts, pool=20), bpe, tmp_path, split="pool").array()
    assert capped.tolist() == whole[:20].tolist()


def test_one_long_text_file_gives_both_splits(tmp_path: Path, bpe: Path, texts: list[str]) -> None:
    path = tmp_path / "one.txt"
    path.write_text("".join(texts) * 10)
    dataset = Dataset("files", path=str(path))
    train = _build(dataset, bpe, tmp_path)
    pool = _build(dataset, bpe, tmp_path, split="pool", exclude=train.path, at_least=32)
    assert not _known(pool.array()) & _known(train.array())


def test_too_few_rows_are_a_mistake_each_time(tmp_path: Path, bpe: Path, write: Write, texts: list[str]) -> None:
    for _ in range(2):
        with pytest.raises(Mistake) as error:
            _build(write(texts, pool=20), bpe, tmp_path, split="pool", at_least=32)
        assert str(error.value) == (
            "data.mine: its text gives 20 rows of 16 tokens for the split 'pool', but 32 are needed;"
            " give it more text or lower the batch."
        )
    with pytest.raises(Mistake, match=r"gives 0 rows of 512 tokens for the split 'train', but 1 are needed"):
        _build(write(["short"]), bpe, tmp_path, n_ctx=512)


def test_mistakes_name_the_dataset(tmp_path: Path, bpe: Path) -> None:
    with pytest.raises(Mistake, match=r"^data.mine.path: 'nowhere' does not exist\.$"):
        _build(Dataset("files", path="nowhere"), bpe, tmp_path)
    (tmp_path / "a.jsonl").write_text("{}\n")
    with pytest.raises(Mistake, match=r"^data.mine.text: .*a.jsonl, line 1 has no field 'text'"):
        _build(Dataset("files", path=str(tmp_path / "a.jsonl")), bpe, tmp_path)
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(Mistake, match=r"^tokenizer: .*broken.json is not a tokenizer"):
        _build(Dataset("files", path=str(tmp_path / "a.jsonl")), tmp_path / "broken.json", tmp_path)


def test_a_second_build_reads_no_text(
    tmp_path: Path, bpe: Path, write: Write, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = write(texts)
    made = _build(dataset, bpe, tmp_path)
    monkeypatch.setattr(rows, "components", lambda _: pytest.fail("text was read"))
    monkeypatch.setattr(rows, "load", lambda _: pytest.fail("the tokenizer was loaded"))
    assert _build(dataset, bpe, tmp_path) == made


def test_whatever_the_rows_depend_on_makes_other_recipes(
    tmp_path: Path, bpe: Path, write: Write, texts: list[str]
) -> None:
    folder = tmp_path / "rows"
    dataset = write(texts)
    first = _build(dataset, bpe, folder)
    other = tmp_path / "tokenizer.json"
    tokenizer.train(texts, 320, other)
    digests = [
        first.digest,
        _build(dataset, bpe, folder, n_ctx=17).digest,
        _build(dataset, bpe, folder, split="pool").digest,
        _build(dataset, other, folder).digest,
        _build(dataclasses.replace(dataset, limit=300), bpe, folder).digest,
        _build(write(texts[100:]), bpe, folder).digest,
    ]
    assert len(set(digests)) == 6
    assert len(list((folder / "recipes").iterdir())) == 6
    assert _build(write(texts), bpe, folder) == first  # touched, but the same content: the same file


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_rows_that_are_lost_or_cut_are_made_again(
    tmp_path: Path, bpe: Path, write: Write, texts: list[str], damage: str
) -> None:
    dataset = write(texts)
    made = _build(dataset, bpe, tmp_path)
    content = made.path.read_bytes()
    made.path.unlink()
    if damage == "short":
        made.path.write_bytes(content[:-2])
    assert _build(dataset, bpe, tmp_path) == made
    assert made.path.read_bytes() == content


def test_builders_at_once_end_with_one_good_file(tmp_path: Path, bpe: Path, write: Write, texts: list[str]) -> None:
    dataset, folder = write(texts), tmp_path / "rows"
    found: list[rows.Rows] = []
    threads = [threading.Thread(target=lambda: found.append(_build(dataset, bpe, folder))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert not list(folder.glob("*.tmp")) + list(folder.glob(".*"))
    assert len(found[0].array()) > 100


@pytest.mark.parametrize("mix", [{"prose": 1.0, "code": 3.0}, {"code": 3.0, "prose": 1.0}])
def test_a_mix_keeps_its_weights_in_both_splits(
    tmp_path: Path, bpe: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch, mix: dict[str, float]
) -> None:
    monkeypatch.setattr(
        stdlib,
        "documents",
        lambda name: iter(texts[:200] if name == "prose" else [text.upper() for text in texts[200:]]),
    )
    both = Dataset("stdlib", mix=mix)
    parts = {name: Dataset("stdlib", mix={name: 1.0}, pool=10**6) for name in mix}
    for name in split.NAMES:
        array = _build(both, bpe, tmp_path, split=name).array()
        single = {part: _known(_build(parts[part], bpe, tmp_path, split=name).array()) for part in mix}
        from_code = np.array([row.tobytes() in single["code"] for row in array])
        assert all(row.tobytes() in single["prose"] for row in array[~from_code])
        assert np.abs(np.cumsum(from_code) - 0.75 * np.arange(1, len(array) + 1)).max() <= 1
        if name == "train":
            assert single["prose"] | single["code"] == _known(array)
    pool = {row.tobytes() for row in _build(parts["code"], bpe, tmp_path, split="pool").array()}
    assert not pool & _known(_build(both, bpe, tmp_path).array())


def test_the_recipe_states_what_it_gave(tmp_path: Path, bpe: Path, write: Write, texts: list[str]) -> None:
    made = _build(write(texts), bpe, tmp_path)
    (recipe,) = (tmp_path / "recipes").iterdir()
    entry = json.loads(recipe.read_text())
    assert entry == {
        "digest": made.digest,
        "path": made.path.name,
        "rows": len(made.array()),
        "size": made.path.stat().st_size,
    }


def test_the_order_of_the_mix_does_not_matter() -> None:
    one, two = (Dataset("stdlib", mix=mix) for mix in ({"prose": 1.0, "code": 2.0}, {"code": 2.0, "prose": 1.0}))
    assert list(documents.components(one)) == list(documents.components(two))

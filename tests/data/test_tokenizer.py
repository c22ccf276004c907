from pathlib import Path

import pytest

from rllc.data import tokenizer
from rllc.mistake import Mistake


def test_the_vocabulary_is_exact_and_bos_is_its_last_id(tmp_path: Path, texts: list[str]) -> None:
    for d_vocab in (257, 300):
        made = tokenizer.train(texts, d_vocab, tmp_path / "tokenizer.json")
        assert (made.d_vocab, made.bos) == (d_vocab, d_vocab - 1)
        assert made.bpe.id_to_token(d_vocab - 1) == "<|bos|>"
        assert made.bpe.get_vocab_size() == d_vocab


def test_bytes_alone_encode_to_bytes(tmp_path: Path, texts: list[str]) -> None:
    made = tokenizer.train(texts, 257, tmp_path / "tokenizer.json")
    assert [len(ids) for ids in made.encode(["aé\n", ""])] == [4, 0]


def test_the_same_documents_give_the_same_file(tmp_path: Path, texts: list[str]) -> None:
    one = tokenizer.train(iter(texts), 350, tmp_path / "a" / "tokenizer.json")
    two = tokenizer.train(iter(texts), 350, tmp_path / "b" / "tokenizer.json")
    assert one.digest == two.digest == tokenizer.digest(tmp_path / "a" / "tokenizer.json")
    assert len(one.digest) == 16
    assert tokenizer.load(tmp_path / "a" / "tokenizer.json").encode(texts) == two.encode(texts)
    assert tokenizer.train(texts[:300], 350, tmp_path / "a" / "tokenizer.json").digest != one.digest


@pytest.mark.parametrize(
    "text", ["loss of the head\n", "Grüße, 世界 🙂", "\0\x01 tab\t\r\n", " <|bos|> is <|bos|>", ""]
)
def test_any_text_comes_back_and_never_as_a_special_token(bpe: Path, text: str) -> None:
    loaded = tokenizer.load(bpe)
    (ids,) = loaded.encode([text])
    assert loaded.decode(ids) == text
    assert loaded.bos not in ids


def test_merges_shorten_familiar_text(bpe: Path, texts: list[str]) -> None:
    loaded = tokenizer.load(bpe)
    assert sum(map(len, loaded.encode(texts))) < 0.75 * sum(map(len, texts))


def test_sizes_that_cannot_be_met(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(Mistake, match=r"^model.d_vocab: 256 is too small: .* at least 257\.$"):
        tokenizer.train(["text"], 256, path)
    with pytest.raises(Mistake, match=r"^model.d_vocab: 1000 is too large: the text gives only 260 entries\.$"):
        tokenizer.train(["text", "text"], 1000, path)
    assert not path.exists()


def test_files_that_are_no_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(Mistake, match=r"^tokenizer: .* cannot be read \(No such file or directory\)\.$"):
        tokenizer.load(path)
    for content in (b"{}", b"", b'{"version": "1.0", "mo', b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(Mistake, match=r"^tokenizer: .* is not a tokenizer file of the tokenizers library"):
            tokenizer.load(path)


def test_tokenizers_made_elsewhere_bring_their_own_start_token(tmp_path: Path, texts: list[str]) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    for special, bos in ((["<pad>", "<|endoftext|>"], 1), ([], 299)):
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.train_from_iterator(
            texts, trainers.BpeTrainer(vocab_size=300, special_tokens=special, show_progress=False)
        )
        made.enable_truncation(4)
        made.enable_padding(length=9)
        entries = made.get_vocab_size()
        made.save(str(tmp_path / "tokenizer.json"))
        loaded = tokenizer.load(tmp_path / "tokenizer.json")
        assert loaded.bos == (bos if special else entries - 1)
        assert len(loaded.encode(["loss " * 50])[0]) >= 50

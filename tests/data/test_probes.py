import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rllc import composition
from rllc.config import Dataset
from rllc.data import dyck, probes, rows, tokenizer
from rllc.mistake import Mistake

CLOSING = dict(("()", "[]", "{}", "<>"))


def test_brackets_are_balanced_in_depth_and_kind() -> None:
    for text in itertools.islice(dyck.documents(), 300):
        inner: list[str] = []
        for bracket in text:
            if bracket in CLOSING:
                inner.append(CLOSING[bracket])
                assert len(inner) <= dyck.DEEPEST
            else:
                assert inner.pop() == bracket
        assert not inner
        assert 64 <= len(text) <= 1024


def test_brackets_of_all_kinds_and_depths_come_and_the_same_for_the_same_seed() -> None:
    first, again, other = (list(itertools.islice(dyck.documents(seed), 200)) for seed in (0, 0, 1))
    assert first == again != other
    counts = Counter("".join(first))
    share = np.array([counts[kind] for kind in CLOSING]) / sum(counts[kind] for kind in CLOSING)
    assert share == pytest.approx(0.25, abs=0.02)
    after = [one for text in first for one, before in zip(text[1:], text, strict=False) if before in CLOSING]
    assert sum(one in CLOSING for one in after) / len(after) == pytest.approx(0.5, abs=0.05)


@pytest.fixture
def corpus() -> "np.ndarray":
    """Rows of a chain of order 2: token t is followed by t + 1 with 3/4 and by t + 2 with 1/4, out of ten."""
    rng = np.random.default_rng(0)
    steps = 1 + (rng.random((400, 63)) < 0.25)
    return np.hstack([np.full((400, 1), 10), np.cumsum(steps, axis=1) % 10]).astype(np.uint16)


def test_bigrams_have_the_transitions_of_the_corpus(corpus: "np.ndarray") -> None:
    drawn = probes.ngrams(corpus, 2, count=3000, seed=1)
    assert drawn.dtype == corpus.dtype
    assert drawn.shape == (3000, 64)
    assert (drawn[:, 0] == 10).all()
    step = (drawn[:, 2:].astype(int) - drawn[:, 1:-1]) % 10
    counts = np.bincount(step.ravel(), minlength=10) / step.size
    # A row of the corpus has 63 tokens: after its last one a place is drawn anew, once in about 62 tokens.
    assert counts[1] == pytest.approx(0.75 * (1 - 1 / 62) + 0.1 / 62, abs=0.005)
    assert counts[2] == pytest.approx(0.25 * (1 - 1 / 62) + 0.1 / 62, abs=0.005)
    assert counts[[0, *range(3, 10)]].sum() == pytest.approx(0.8 / 62, abs=0.003)


def test_single_tokens_are_independent_and_have_the_frequencies_of_the_corpus() -> None:
    rng = np.random.default_rng(0)
    corpus = np.sort(rng.choice(5, size=(300, 40), p=[0.5, 0.2, 0.2, 0.05, 0.05]), axis=1).astype(np.uint16)
    drawn = probes.ngrams(corpus, 1, count=2000, seed=0)[:, 1:]
    known = np.bincount(corpus[:, 1:].ravel(), minlength=5) / corpus[:, 1:].size
    assert np.bincount(drawn.ravel(), minlength=5) / drawn.size == pytest.approx(known, abs=0.01)
    pairs = np.bincount(drawn[:, :-1].ravel() * 5 + drawn[:, 1:].ravel(), minlength=25) / drawn[:, 1:].size
    assert pairs == pytest.approx(np.outer(known, known).ravel(), abs=0.01)


def test_trigrams_are_those_of_the_corpus_inside_of_its_rows(corpus: "np.ndarray") -> None:
    rng = np.random.default_rng(1)
    corpus = np.hstack([corpus[:, :1], rng.integers(4, size=(400, 63))]).astype(np.uint16)
    corpus[:, 3::3] = (corpus[:, 1:-2:3] ^ corpus[:, 2:-1:3])[:, : corpus[:, 3::3].shape[1]]
    known = {tuple(row[i : i + 3]) for row in corpus[:5].tolist() for i in range(1, 62)}
    drawn = probes.ngrams(corpus[:5], 3, count=50, seed=0).tolist()
    found = Counter(tuple(row[i : i + 3]) in known for row in drawn for i in range(1, 62))
    assert found[True] / found.total() > 0.9  # all but those over a place drawn anew, 2 in about 61


def test_after_the_end_of_a_row_any_place_follows() -> None:
    corpus = np.hstack([np.full((10, 1), 99), np.repeat(np.arange(10)[:, None], 20, axis=1)]).astype(np.uint16)
    drawn = probes.ngrams(corpus, 2, count=2000, seed=0)[:, 1:].astype(int)
    before, after = drawn[:, :-1].ravel(), drawn[:, 1:].ravel()
    step = ((after - before) % 10)[after != before]
    assert np.bincount(step, minlength=10)[1:] / len(step) == pytest.approx(1 / 9, abs=0.02)
    assert len(step) / drawn[:, 1:].size == pytest.approx(0.9 / 19, rel=0.1)  # of 19 places in a row one is its last


def test_repeats_are_said_twice() -> None:
    drawn = probes.repeats(50, 17, count=20, seed=0, bos=7)
    assert (drawn[:, 0] == 7).all()
    assert (drawn[:, 1:9] == drawn[:, 9:]).all()
    assert not (drawn[:, 1:] == 7).any()


def build(dataset: Dataset, bpe: Path, folder: Path) -> np.ndarray:
    return rows.build("mine", dataset, tokenizer=bpe, n_ctx=16, split="pool", folder=folder).array()


def test_the_sources_give_rows(tmp_path: Path, bpe: Path, write: Callable[..., Dataset], texts: list[str]) -> None:
    corpus, vocabulary = write(texts), tokenizer.load(bpe)
    assert np.array_equal(
        build(Dataset("repeats", pool=30), bpe, tmp_path),
        probes.repeats(300, 16, count=30, seed=0, bos=vocabulary.bos),
    )
    brackets = build(Dataset("dyck", limit=64, pool=10**6), bpe, tmp_path)
    assert set(vocabulary.decode(brackets[:, 1:].ravel().tolist())) == set("()[]{}<>")
    drawn = build(Dataset("ngrams", mix={"a": 1.0}, of={"a": corpus}, pool=40), bpe, tmp_path)
    counted = build(corpus, bpe, tmp_path)
    assert np.array_equal(drawn, probes.ngrams(counted, 2, count=40, seed=0))


def test_a_mixture_has_its_weights_and_the_rows_of_its_datasets(
    tmp_path: Path, bpe: Path, write: Callable[..., Dataset], texts: list[str]
) -> None:
    one = write(texts[:300], "one.jsonl", pool=10**6)
    two = write([text.upper() for text in texts[300:]], "two.jsonl", pool=10**6)
    mixed = Dataset("mixture", mix={"one": 3.0, "two": 1.0}, of={"one": one, "two": two}, pool=10**6)
    known = [{row.tobytes() for row in build(each, bpe, tmp_path)} for each in (one, two)]
    from_two = np.array([row.tobytes() in known[1] for row in build(mixed, bpe, tmp_path)])
    assert len(from_two) > 30
    assert np.abs(np.cumsum(from_two) - 0.25 * np.arange(1, len(from_two) + 1)).max() <= 1
    assert all(row.tobytes() in known[0] | known[1] for row in build(mixed, bpe, tmp_path))


def test_a_mixture_of_mixtures_keeps_the_weights_inside(tmp_path: Path) -> None:
    from rllc.data import documents

    (tmp_path / "a.txt").write_text("text")
    text = Dataset("files", path=str(tmp_path / "a.txt"))
    whole = Dataset("mixture", mix={"lib": 2.0, "text": 1.0},
                    of={"lib": Dataset("stdlib", mix={"prose": 1.0, "code": 3.0}), "text": text})  # fmt: skip
    assert documents.weights(whole) == {"lib.prose": 0.5, "lib.code": 1.5, "text": 1.0}
    assert documents.components(whole).keys() == documents.weights(whole).keys()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["data=[stdlib_mix,mixture]", "data.mixture.mix={nope: 1}"],
            "data.mixture.mix: 'nope' is not one of: stdlib_mix.",
        ),
        (
            ["data=[stdlib_mix,ngrams]", "data.ngrams.mix={ngrams: 1}"],
            "data.ngrams.mix: 'ngrams' is not one of: stdlib",
        ),
        (["data=[stdlib_mix,dyck]", "+data.dyck.of={a: {source: dyck}}"], "data.dyck.of: it is filled in; name the"),
        (["data=[random_repeats]", "train.data=random_repeats"], "train.data: random_repeats is made for estimation"),
    ],
)
def test_what_cannot_be_mixed_or_trained_on_is_refused(words: list[str], sentence: str) -> None:
    with pytest.raises(Mistake) as mistake:
        composition.compose(words)
    assert str(mistake.value).startswith(sentence)


@pytest.mark.parametrize(
    ("dataset", "sentence"),
    [
        (Dataset("dyck", path="x"), "path: 'x' belongs to the source 'files' and 'hub', not to 'dyck'."),
        (Dataset("hub"), "path: a dataset with source 'hub' needs the id of a dataset"),
        (
            Dataset("mixture", mix={"a": 1.0}, of={"a": Dataset("repeats")}),
            "mix.a: repeats are rows of tokens, not text",
        ),
        (
            Dataset("ngrams", mix={"a": 1.0, "b": 1.0}, of={"a": Dataset("dyck"), "b": Dataset("dyck")}),
            "mix: ['a', 'b']",
        ),
        (Dataset("mixture", mix={"a": -1.0}, of={"a": Dataset("dyck")}), "mix.a: -1.0 is not a weight"),
        (Dataset("ngrams", mix={"a": 1.0}, of={"a": Dataset("dyck")}, order=0), "order: 0 is below"),
    ],
)
def test_fields_that_do_not_fit_their_source(dataset: Dataset, sentence: str) -> None:
    from rllc.data import documents

    with pytest.raises(Mistake) as mistake:
        documents.check(dataset)
    assert str(mistake.value).startswith(sentence)

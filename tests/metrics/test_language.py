"""The scores of the whole model and those that need to know what the tokens are."""

import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rllc.config import Model
from rllc.data import brackets as signs_of
from rllc.metrics import bigram, brackets, icl, multigrams, ngram, patterns
from rllc.mistake import Mistake
from rllc.models import decoder, surgery

sys.path.append(str(Path(__file__).parent))
from planted_circuit import induction, pool, task, twice

FLAT = Model(1, 1, 12, 2, 9, 12, "shortformer")


def chain(rows=200, seed=0):
    """Rows of a Markov chain of 12 tokens."""
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.full(12, 0.3), 12)
    tokens = np.zeros((rows, 9), np.int64)
    tokens[:, 0] = rng.integers(12, size=rows)
    for at in range(1, 9):
        tokens[:, at] = [rng.choice(12, p=moves[before]) for before in tokens[:, at - 1]]
    return torch.from_numpy(tokens)


def markov(table_VV):
    """A model without heads that predicts the next token by a table of probabilities, to about 1e-6.

    A one-hot stream of width 12 keeps its direction in the last norm; the unembedding undoes its scale.
    """
    weights = {name: torch.zeros_like(array).double() for name, array in decoder.init(FLAT, 0).items()}
    for name in weights:
        if name.endswith((".ln1.w", "final.w")):
            weights[name] += 1
    weights["embed"] = torch.eye(12).double()
    hot = torch.nn.functional.layer_norm(weights["embed"], (12,))
    weights["unembed"] = torch.linalg.pinv(hot) @ (table_VV.log() - table_VV.log().mean(0))
    weights["unembed.b"] = table_VV.log().mean(0)
    return weights


def counted(tokens):
    """Bigram probabilities of rows, no zeros, and how often each token comes first."""
    table = torch.zeros(12, 12).double()
    for row in tokens:
        for before, after in itertools.pairwise(row):
            table[before, after] += 1
    return table, table.sum(1)


def test_a_model_of_the_text_s_own_bigrams_reaches_the_floor_and_others_are_above_by_their_divergence():
    tokens = chain()
    table, first = counted(tokens)
    share = (table + 1e-9) / (table + 1e-9).sum(1, keepdim=True)
    entropy = -(table / first[:, None].clamp(min=1) * share.log()).sum(1)
    floor = float((first / first.sum() * entropy).sum())
    got = bigram.measure(task("*", "bigram"), pool(markov(share), tokens, FLAT))
    assert got.stats["floor"] == pytest.approx(floor, abs=1e-5)
    assert got.value == pytest.approx(floor, abs=1e-4)
    even = torch.full((12, 12), 1 / 12).double()
    flat = bigram.measure(task("*", "bigram"), pool(markov(even), tokens, FLAT))
    assert flat.value == pytest.approx(math.log(12))
    other = (share + 1 / 12) / 2
    mixed = bigram.measure(task("*", "bigram"), pool(markov(other), tokens, FLAT))
    divergence = (first / first.sum() * (share * (share / other).log()).sum(1)).sum()
    assert mixed.value == pytest.approx(floor + divergence.item(), abs=1e-4)


def test_the_bigram_score_is_a_dense_cross_entropy_for_any_model():
    model, tokens = Model(2, 2, 12, 4, 9, 12, "learned"), chain(40)
    weights = {name: array.double() for name, array in decoder.init(model, 0).items()}
    table, first = counted(tokens)
    goal = (table / first[:, None].clamp(min=1))[tokens[:, :-1]]
    x = decoder.embed(weights, tokens[None], model)
    for layer in range(2):
        x = decoder.layer(weights, layer, x, model)
    logits = decoder.last(weights, x, model)[0] @ weights["unembed"] + weights["unembed.b"]
    each = -(goal * logits.log_softmax(-1)).sum(-1).mean(1)
    got = bigram.measure(task("*", "bigram"), pool(weights, tokens, model))
    assert got.value == pytest.approx(each.mean().item())
    assert got.error == pytest.approx(each.std().item() / math.sqrt(40))


def test_the_in_context_score_of_induction_is_the_loss_of_what_can_be_copied_less_that_of_what_cannot():
    """Of 9 tokens those at shares 500/1024 and 50/1024 of the context are the 4th and, at least, the 1st."""
    tokens = twice()
    said = torch.cat([tokens[:, :1], tokens[:, 1:2], tokens[:, 2:3], tokens[:, 1:3], tokens[:, 5:]], 1)
    got = icl.measure(task("*", "icl"), pool(induction(), said))
    assert got.value < -1
    own = pool(induction(), tokens)
    loss = surgery.unchanged(own, own.every)[0]  # at each place that of the next token
    assert icl.measure(task("*", "icl"), own).value == pytest.approx((loss[:, 3] - loss[:, 0]).mean().item(), rel=1e-5)


def test_the_ngram_score_is_a_ratio_of_losses():
    tokens = chain()
    table, first = counted(tokens)
    share = (table + 1e-9) / (table + 1e-9).sum(1, keepdim=True)
    got = ngram.measure(task("*", "ngram_2"), pool(markov(share), tokens, FLAT), n=2)
    loss = -share[tokens[:, :-1], tokens[:, 1:]].log()
    assert got.value == pytest.approx(1, abs=1e-3)  # every bigram of so small a text is common
    even = torch.full((12, 12), 1 / 12).double()
    assert ngram.measure(task("*", "ngram_3"), pool(markov(even), tokens, FLAT), n=3).value == pytest.approx(1)
    assert loss.mean() < math.log(12)
    assert first.sum() == 200 * 8


@pytest.fixture
def tokenizer(tmp_path):
    """Tokens 0 … 7, of which 1 opens a bracket and 2 closes it."""
    vocabulary = {"a": 0, "(": 1, ")": 2, **{chr(98 + n): 3 + n for n in range(5)}}
    path = tmp_path / "tokenizer.json"
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "a"}
    path.write_text(json.dumps({"version": "1.0", "model": model}))
    return path


def test_the_bracket_score_is_the_attention_to_what_the_next_token_closes(tokenizer):
    assert signs_of.signs(tokenizer) == {1: "(", 2: ")"}
    tokens = torch.tensor([[0, 1, 3, 4, 2, 1, 2, 3, 0], [3, 0, 4, 5, 6, 7, 0, 3, 4]])
    own = pool(induction(), tokens)
    own.tokenizer = tokenizer
    opened = brackets.opened(own)
    assert opened[0].tolist() == [-1, -1, -1, -1, 1, -1, 5, -1, -1]
    assert brackets.closing(opened).tolist() == [1, 0]  # "()" does not count
    pattern = torch.zeros(1, 2, 1, 9, 9)
    pattern[0, 0, 0, 3, 1], pattern[0, 0, 0, 5, 5], pattern[0, 0, 0, 4, 1] = 0.75, 1.0, 0.5
    assert brackets.score(pattern, opened[None]).tolist() == [[[0.75], [0.0]]]
    even = brackets.measure(task("L0H1", "brackets"), own)  # a head of zeros attends evenly
    assert even.value == pytest.approx(1 / 4)
    assert even.stats["positions"] == 1
    none = pool(induction(), tokens[1:])
    none.tokenizer = tokenizer
    assert brackets.measure(task("L0H1", "brackets"), none).value == 0


def test_brackets_without_a_tokenizer_are_refused_and_counted_nowhere(tokenizer):
    with pytest.raises(Mistake, match=r"grid.metrics: brackets need a tokenizer.json"):
        brackets.measure(task("L0H1", "brackets"), pool(induction(), twice()))
    tokens = np.array([[0, 1, 3, 4, 2, 5, 6, 7, 0]])
    with_file, without = (multigrams.classes(tokens.tobytes(), tokens.shape, file)[0] for file in (tokenizer, None))
    assert with_file[0, 4] == multigrams.CLASSES.index("bracket")
    assert (with_file != without).sum() == 1


def test_each_token_is_of_the_first_class_that_holds_and_grams_count_once(monkeypatch):
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 300, (60, 30))
    tokens[:, 3:6] = 400, 401, 402  # a trigram
    tokens[:, 10], tokens[:, 14] = 500, 501  # a skip-bigram
    tokens[:, 20:22] = 400, 401  # a copy within the row
    kind, gram = multigrams.classes(tokens.tobytes(), tokens.shape, None)
    names = np.array(multigrams.CLASSES)[kind]
    assert (names[:, [4, 5]] == "ngram").all()
    assert (names[:, 14] == "skip_ngram").all()
    assert (names[:, 21] == "induction").all()
    assert set(names[:, 25]) == {"other"}
    assert len(set(gram[:, 4])) == len(set(gram[:, 5])) == 1
    needed = np.ones((60, 29), bool)
    monkeypatch.setattr(multigrams, "_tokens", lambda _task, _pool: (needed, kind[:, 1:], gram[:, 1:]))
    assert multigrams.distinct(task("L0H0"), None, kind="skip_ngram").value == len(set(gram[names == "skip_ngram"]))
    shares = [multigrams.count(task("L0H0"), None, kind=each).value for each in multigrams.CLASSES]
    assert sum(shares) == pytest.approx(1000)
    assert shares[0] == pytest.approx(1000 * (kind[:, 1:] == 0).mean())


def test_the_first_token_score_of_even_attention():
    even = (torch.ones(7, 7).tril() / torch.arange(1, 8)[:, None])[None, None, None]
    assert patterns.first_token(even, torch.zeros(1)).item() == pytest.approx(np.mean([1 / n for n in range(2, 8)]))

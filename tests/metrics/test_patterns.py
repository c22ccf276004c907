import math
from functools import partial

import numpy as np
import pytest
import torch

from rllc.config import Model
from rllc.metrics import patterns
from rllc.models import attention, decoder
from rllc.models.pool import Pool
from rllc.task import Task

TOKENS = torch.tensor([[[9, 1, 2, 1, 3, 1, 2]]])


def sharp(targets):
    """A pattern (1, 1, 1, L, L) in which position i attends to targets[i] alone."""
    return torch.nn.functional.one_hot(torch.tensor(targets), len(targets)).float()[None, None, None]


def test_previous_and_current_token_of_sharp_and_even_patterns():
    assert patterns.prev_token(sharp([0, 0, 1, 2, 3, 4, 5]), TOKENS).item() == 1
    assert patterns.prev_token(sharp([0, 1, 2, 3, 4, 5, 6]), TOKENS).item() == 0
    assert patterns.current_token(sharp([0, 1, 2, 3, 4, 5, 6]), TOKENS).item() == 1
    assert patterns.current_token(sharp([0, 0, 1, 2, 3, 4, 5]), TOKENS).item() == 0
    even = (torch.ones(7, 7).tril() / torch.arange(1, 8)[:, None])[None, None, None]
    expected = np.mean([1 / (i + 1) for i in range(1, 7)])
    assert patterns.prev_token(even, TOKENS).item() == pytest.approx(expected)
    assert patterns.current_token(even, TOKENS).item() == pytest.approx(expected)


def test_prefix_matching_counts_the_positions_after_earlier_copies():
    # copies: position 3 (1 seen at 1) → 2; position 5 (1 at 1 and 3) → 2 and 4; position 6 (2 at 2) → 3
    assert patterns.prefix(sharp([0, 0, 0, 2, 0, 2, 3]), TOKENS).item() == 1
    assert patterns.prefix(sharp([0, 0, 0, 2, 0, 4, 3]), TOKENS).item() == 1
    assert patterns.prefix(sharp([0, 0, 0, 1, 0, 3, 2]), TOKENS).item() == 0  # attends to the copies themselves
    assert patterns.prefix(sharp([0, 0, 0, 2, 0, 0, 0]), TOKENS).item() == pytest.approx(1 / 3)
    assert patterns.prefix(sharp([0, 1, 2]), torch.tensor([[[4, 5, 6]]])).item() == 0  # nothing seen before


def test_measure_is_the_mean_over_rows_with_its_standard_error():
    model = Model(2, 3, 12, 4, 9, 20, "learned")
    weights = decoder.init(model, 0)
    tokens = torch.from_numpy(np.random.default_rng(0).integers(20, size=(37, 9)))
    pool = Pool(weights, model, tokens, chains=1, batch=8)
    task = Task("r", "w", 0, "L1H2", "d", "x", "prev_token", 0, None)
    got = patterns.measure(task, pool, patterns.prev_token)
    x = decoder.layer(weights, 0, decoder.embed(weights, tokens[None], model), model)
    each = attention.patterns(weights, 1, x, model)[0, :, 2].diagonal(-1, dim1=-2, dim2=-1).mean(-1)
    assert got.value == pytest.approx(each.mean().item(), abs=1e-6)
    assert got.error == pytest.approx(each.std().item() / math.sqrt(37), rel=1e-4)
    assert got.health == "ok"


def test_scores_follow_the_heads_when_these_are_permuted():
    model = Model(1, 4, 12, 4, 9, 20, "shortformer")
    weights, order = decoder.init(model, 0), [2, 0, 3, 1]
    turned = {n: a[order] if n[3:] in ("q", "k", "v", "o", "bq", "bk", "bv") else a for n, a in weights.items()}
    tokens = torch.from_numpy(np.random.default_rng(0).integers(20, size=(16, 9)))
    measure = partial(patterns.measure, score=patterns.prefix)
    first, second = (
        [
            measure(
                Task("r", "w", 0, f"L0H{h}", "d", "x", "prefix", 0, None), Pool(w, model, tokens, chains=1, batch=8)
            ).value
            for h in range(4)
        ]
        for w in (weights, turned)
    )
    assert second == pytest.approx([first[h] for h in order], abs=1e-6)
    assert len(set(first)) == 4


def test_a_broken_checkpoint_gives_no_number():
    model = Model(1, 2, 8, 4, 6, 20, "shortformer")
    weights = decoder.init(model, 0)
    weights["L0.q"][0, 0, 0] = math.nan
    pool = Pool(weights, model, torch.zeros(4, 6, dtype=torch.long), chains=1, batch=2)
    got = patterns.measure(Task("r", "w", 0, "L0H0", "d", "x", "prev_token", 0, None), pool, patterns.prev_token)
    assert math.isnan(got.value)
    assert got.health == "diverged"

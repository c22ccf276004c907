import math

import numpy as np
import pytest
import torch
from flat import views

from rllc.config import Model
from rllc.models import attention, causal, decoder, lens
from rllc.models.layout import MATRICES, names, shapes

SHORT = Model(2, 3, 12, 5, 10, 17, "shortformer")
LEARNED = Model(3, 2, 8, 4, 9, 11, "learned")


def random_weights(model, seed=0):
    """Weights none of which is at its special value: LayerNorms and biases too."""
    generator = torch.Generator().manual_seed(seed)
    return {n: torch.randn(s, generator=generator, dtype=torch.float64) * 0.7 for n, s in shapes(model).items()}


def by_hand(weights, tokens, model):
    """The forward pass of one row written out position by position, head by head, in numpy."""
    w = {name: array.numpy() for name, array in weights.items()}

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w[f"{name}.w"] + w[f"{name}.b"]

    length = len(tokens)
    x = w["embed"][tokens] + (w["pos"][:length] if model.positions == "learned" else 0)
    for layer in range(model.n_layers):
        seen = norm(x, f"L{layer}.ln1")
        placed = seen + (w["pos"][:length] if model.positions == "shortformer" else 0)
        out = np.tile(w[f"L{layer}.bo"], (length, 1))
        for head in range(model.n_heads):
            q, k = (placed @ w[f"L{layer}.{m}"][head] + w[f"L{layer}.b{m}"][head] for m in "qk")
            v = seen @ w[f"L{layer}.v"][head] + w[f"L{layer}.bv"][head]
            for i in range(length):
                score = np.array([q[i] @ k[j] / math.sqrt(model.d_head) for j in range(i + 1)])
                share = np.exp(score - score.max()) / np.exp(score - score.max()).sum()
                out[i] += share @ v[: i + 1] @ w[f"L{layer}.o"][head]
        x = x + out
    logits = norm(x, "final")[:-1] @ w["unembed"] + w["unembed.b"]
    top = logits.max(-1)
    return np.mean(top + np.log(np.exp(logits - top[:, None]).sum(-1)) - logits[np.arange(length - 1), tokens[1:]])


@pytest.mark.parametrize("largest", [causal.PATTERN_SIZE, 0], ids=["patterns kept", "fused"])
@pytest.mark.parametrize("model", [SHORT, LEARNED])
def test_forward_is_the_transformer_written_out(model, largest, monkeypatch):
    monkeypatch.setattr(causal, "PATTERN_SIZE", largest)
    weights, tokens = random_weights(model), np.random.default_rng(0).integers(model.d_vocab, size=(2, 3, model.n_ctx))
    got = decoder.forward(weights, torch.from_numpy(tokens), model)
    expected = [[by_hand(weights, row, model) for row in rows] for rows in tokens]
    assert got.numpy() == pytest.approx(np.array(expected), abs=1e-10)


@pytest.mark.parametrize("model", [SHORT, LEARNED])
def test_each_array_may_carry_a_chain_axis_of_its_own(model):
    first, second = random_weights(model, 1), random_weights(model, 2)
    tokens = torch.from_numpy(np.random.default_rng(0).integers(model.d_vocab, size=(2, 3, model.n_ctx)))
    for name in shapes(model):
        mixed = first | {name: torch.stack([first[name], second[name]])}
        got = decoder.forward(mixed, tokens, model)
        expected = [
            decoder.forward(first | {name: w[name]}, tokens[c : c + 1], model) for c, w in enumerate((first, second))
        ]
        assert torch.allclose(got, torch.cat(expected), atol=1e-12), name


def test_later_tokens_do_not_reach_back():
    weights, tokens = random_weights(SHORT), torch.zeros(1, 1, SHORT.n_ctx, dtype=torch.long)
    changed = tokens.clone()
    changed[..., -1] = 5
    streams = []
    for row in (tokens, changed):
        x = decoder.embed(weights, row, SHORT)
        for layer in range(SHORT.n_layers):
            x = decoder.layer(weights, layer, x, SHORT)
        streams.append(x)
    assert torch.equal(streams[0][..., :-1, :], streams[1][..., :-1, :])
    assert not torch.equal(streams[0][..., -1, :], streams[1][..., -1, :])


def test_patterns_are_what_the_heads_use():
    weights, tokens = random_weights(SHORT), torch.randint(17, (1, 2, 10), generator=torch.Generator().manual_seed(0))
    x = decoder.embed(weights, tokens, SHORT)
    pattern = attention.patterns(weights, 0, x, SHORT)
    assert pattern.shape == (1, 2, 3, 10, 10)
    assert torch.allclose(pattern.sum(-1), torch.ones(1, dtype=torch.float64))
    assert not pattern.triu(1).any()
    content = attention.inputs(weights, 0, x, SHORT)
    value = torch.einsum("cble,hek->cbhlk", content, weights["L0.v"]) + weights["L0.bv"][:, None]
    output = torch.einsum("cbhlm,cbhmk,hke->cble", pattern, value, weights["L0.o"])
    joined = attention.join({name: weights[f"L0.{name}"] for name in MATRICES})
    place = attention.places(weights, SHORT, 10)
    assert torch.allclose(output, attention.heads(joined, content, place, SHORT), atol=1e-12)


def test_flat_names_are_views_and_cover_every_weight_once():
    weights = random_weights(SHORT)
    flat = views(weights, SHORT)
    assert sum(array.numel() for array in flat.values()) == sum(array.numel() for array in weights.values())
    assert list(flat) == [name for name, _, _ in names(SHORT)]
    flat["L1H2.o"].zero_()
    assert not weights["L1.o"][2].any()
    assert weights["L1.o"][1].any()
    per_head = sum(flat[f"L0H1.{m}"].numel() for m in ("q", "k", "v", "o", "bq", "bk", "bv"))
    assert per_head == 4 * 12 * 5 + 3 * 5


def test_lens_keys_go_there_and_back_and_buffers_are_dropped():
    weights = random_weights(SHORT)
    state = lens.save(weights, SHORT)
    assert state["blocks.1.attn.W_Q"] is weights["L1.q"]
    assert state["blocks.0.attn.b_O"] is weights["L0.bo"]
    assert state["ln_final.w"] is weights["final.w"]
    assert state["blocks.0.ln1.b"] is weights["L0.ln1.b"]
    extra = state | {"blocks.0.attn.mask": torch.zeros(10, 10), "blocks.0.attn.IGNORE": torch.zeros(())}
    back = lens.load(extra, SHORT, "file")
    assert list(back) == list(weights)
    assert all(back[name] is weights[name] for name in weights)


def test_same_seed_same_start_and_sizes_as_documented():
    model = Model(2, 8, 64, 8, 64, 512, "shortformer")
    first, again, other = (decoder.init(model, seed) for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["L0.q"], other["L0.q"])
    assert sum(array.numel() for array in first.values()) == 103_808
    assert first["unembed"].std().item() == pytest.approx(0.5 / 8, rel=0.02)
    assert first["L1.o"].std().item() == pytest.approx(1 / 8, rel=0.05)

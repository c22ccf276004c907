import dataclasses

import numpy as np
import pytest
import torch
from flat import views
from test_attention import random_weights

from rllc import legal
from rllc.config import Model, plain
from rllc.mistake import Mistake
from rllc.models import attention, decoder, lens, parts
from rllc.models.layout import names, shapes

BARE = {"bias_qkv": False, "bias_o": False, "bias_mlp": False, "bias_unembed": False}
SHAPE = {"n_heads": 4, "d_model": 12, "d_head": 4, "n_ctx": 10, "d_vocab": 17}
DECODERS = {
    "parallel": Model(3, **SHAPE, positions="rotary", d_rotary=2, d_mlp=20, parallel=True, bias_unembed=False),
    "sequential": Model(2, **SHAPE, positions="rotary", d_rotary=4, rotary_base=50.0, d_mlp=20, activation="relu"),
    "gpt2": Model(2, **SHAPE, positions="learned", d_mlp=20, activation="gelu_tanh", tied=True, bias_unembed=False),
    "llama": Model(
        2, **SHAPE, positions="rotary", n_kv=2, d_rotary=4, norm="rms", eps=1e-6, d_mlp=20, activation="silu",
        gated=True, **BARE,
    ),
    "parallel llama": Model(
        2, **SHAPE, positions="rotary", d_rotary=4, norm="rms", d_mlp=20, activation="silu", gated=True, parallel=True,
    ),
}  # fmt: skip


def tokens_of(model, chains=2, rows=3):
    return torch.from_numpy(np.random.default_rng(0).integers(model.d_vocab, size=(chains, rows, model.n_ctx)))


@pytest.mark.parametrize("model", DECODERS.values(), ids=DECODERS)
def test_each_array_may_carry_a_chain_axis_of_its_own(model):
    first, second = random_weights(model, 1), random_weights(model, 2)
    tokens = tokens_of(model)
    for name in shapes(model):
        mixed = first | {name: torch.stack([first[name], second[name]])}
        got = decoder.forward(mixed, tokens, model)
        expected = [
            decoder.forward(first | {name: w[name]}, tokens[c : c + 1], model) for c, w in enumerate((first, second))
        ]
        assert torch.allclose(got, torch.cat(expected), atol=1e-12), name


@pytest.mark.parametrize("model", DECODERS.values(), ids=DECODERS)
def test_every_array_moves_the_loss_and_each_weight_has_one_name(model):
    weights = {name: array.requires_grad_() for name, array in random_weights(model).items()}
    decoder.forward(weights, tokens_of(model), model).sum().backward()
    still = [name for name, array in weights.items() if not array.grad.any()]
    assert still == []
    flat = views(weights, model)
    assert list(flat) == [name for name, _, _ in names(model)]
    assert sum(array.numel() for array in flat.values()) == sum(array.numel() for array in weights.values())


def test_rotary_patterns_depend_on_distance_alone():
    """With the same content everywhere the score of a pair of positions is a function of how far they are apart."""
    model = Model(1, 2, 8, 4, 12, 9, "rotary", d_rotary=4, rotary_base=7.0)
    weights = random_weights(model)
    x = torch.ones(1, 1, 12, 8, dtype=torch.float64) * torch.linspace(-1, 1, 8, dtype=torch.float64)
    pattern = attention.patterns(weights, 0, x, model)[0, 0, 1].log()
    for distance in range(1, 11):
        ratios = (pattern.diagonal(-distance) - pattern.diagonal()[distance:]).numpy()
        assert ratios == pytest.approx(np.full(len(ratios), ratios[0]), abs=1e-6)
    assert len({round(float(pattern[11, 11 - d] - pattern[11, 11]), 6) for d in range(12)}) == 12


def test_patterns_of_grouped_heads_are_what_the_heads_use():
    model = DECODERS["llama"]
    weights = random_weights(model)
    x = decoder.embed(weights, tokens_of(model, 1, 2), model)
    pattern, content = attention.patterns(weights, 0, x, model), attention.inputs(weights, 0, x, model)
    value = torch.einsum("cble,gek->cbglk", content, weights["L0.v"]).repeat_interleave(2, 2)
    output = torch.einsum("cbhlm,cbhmk,hke->cble", pattern, value, weights["L0.o"])
    joined = attention.join(attention.matrices(weights, 0))
    assert torch.allclose(output, attention.heads(joined, content, None, model), atol=1e-12)


def test_grouped_heads_are_ungrouped_ones_with_equal_keys_and_values():
    model = DECODERS["llama"]
    weights, each = random_weights(model), dataclasses.replace(model, n_kv=None)
    spread = {
        name: array.repeat_interleave(2, 0) if name[-2:] in (".k", ".v") else array for name, array in weights.items()
    }
    tokens = tokens_of(model)
    assert torch.allclose(decoder.forward(weights, tokens, model), decoder.forward(spread, tokens, each), atol=1e-12)


def test_names_of_decoders():
    llama = [name for name, _, _ in names(DECODERS["llama"])]
    assert {"L0H3.q", "L0H3.o", "L0G1.k", "L0G1.v", "L1.mlp.gate", "L1.mlp.in", "L0.ln2.w"} <= set(llama)
    assert not {"L0H0.k", "L0G2.k", "pos", "L0.ln1.b", "L0.bo", "unembed.b"} & set(llama)
    assert parts.of(DECODERS["llama"], "L0H3") == ["L0H3.q", "L0H3.o"]
    assert parts.spelt("mlps", llama) == ["L0.mlp", "L1.mlp"]
    assert parts.spelt("groups", llama) == ["L0G0", "L0G1", "L1G0", "L1G1"]
    assert parts.spelt("layers", llama) == ["L0*", "L1*"]
    assert parts.spelt("heads", llama) == parts.heads(llama)
    assert parts.of(DECODERS["gpt2"], "unembed") == parts.of(DECODERS["gpt2"], "embed") == ["embed"]
    assert "embed" not in parts.of(DECODERS["gpt2"], "!unembed")
    with pytest.raises(Mistake, match="'mlps' stands for nothing in this model"):
        parts.spelt("mlps", ["L0H0.q", "embed"])


@pytest.mark.parametrize("model", DECODERS.values(), ids=DECODERS)
def test_lens_keys_go_there_and_back(model):
    weights = random_weights(model)
    state = lens.save(weights, model)
    back = lens.load(state, model, "file")
    assert list(back) == list(weights)
    assert all(torch.equal(back[name], weights[name]) for name in weights)
    lens.check(state, model, "file")


def test_a_model_as_json_leaves_defaults_out():
    short = Model(2, 8, 64, 8, 64, 512, "shortformer")
    assert list(plain(short)) == ["n_layers", "n_heads", "d_model", "d_head", "n_ctx", "d_vocab", "positions"]
    assert all(Model(**plain(model)) == model for model in DECODERS.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_kv": 3}, "model.n_kv: 3 groups of 4 heads are not equally large."),
        ({"d_rotary": 3}, "model.d_rotary: 3 cannot be with positions rotary; legal: an even number from 2 to"),
        ({"d_rotary": 6}, "model.d_rotary: 6 cannot be"),
        ({"positions": "learned"}, "model.d_rotary: 4 cannot be with positions learned; legal: 0."),
        ({"d_mlp": 0}, "model.gated: true needs an MLP; set model.d_mlp above 0."),
        ({"d_mlp": -1}, "model.d_mlp: -1 is below"),
        ({"eps": 0.0}, "model.eps: 0.0 is not a finite number above 0."),
        ({"n_layers": 0}, "model.n_layers: 0 is below"),
    ],
)
def test_shapes_that_cannot_be_are_refused(change, message):
    with pytest.raises(Mistake) as told:
        legal.check_model(dataclasses.replace(DECODERS["llama"], **change), "model")
    assert str(told.value).startswith(message)


def test_jax_refuses_what_it_does_not_compute():
    from rllc.task import Sampler

    sampler = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=3, draws=12, burn_in=0, batch=4, backend="jax")
    legal.check_backend(sampler, Model(2, 8, 64, 8, 64, 512, "shortformer"))
    with pytest.raises(Mistake, match=r"sampler.backend: jax computes attention-only models, not one with pos"):
        legal.check_backend(sampler, DECODERS["parallel"])
    with pytest.raises(Mistake, match=r"not one with positions learned, eps 1e-06; legal: torch"):
        legal.check_backend(sampler, Model(2, 8, 64, 8, 64, 512, "learned", eps=1e-6))

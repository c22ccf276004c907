import copy
from functools import partial

import numpy as np
import pytest
import torch

pytest.importorskip("transformers")

from architectures import CASES, LENGTH, VOCAB, net, on_disk, tokens_of

from rllc.backends import torch as backend
from rllc.metrics import llc
from rllc.mistake import Mistake
from rllc.models import decoder, hf
from rllc.models.layout import shapes
from rllc.models.pool import Pool
from rllc.task import Sampler, Task

PYTHIA = {  # layers, width, heads, inner width; parameters as published
    "14m": (6, 128, 4, 512, 14_067_712),
    "31m": (6, 256, 8, 1024, 30_494_720),
    "70m": (6, 512, 8, 2048, 70_426_624),
    "160m": (12, 768, 12, 3072, 162_322_944),
    "410m": (24, 1024, 16, 4096, 405_334_016),
    "1b": (16, 2048, 8, 8192, 1_011_781_632),
    "1.4b": (24, 2048, 16, 8192, 1_414_647_808),
}
OLD_PYTHIA = {
    "architectures": ["GPTNeoXForCausalLM"], "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "gelu",
    "initializer_range": 0.02, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "model_type": "gpt_neox",
    "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": False, "torch_dtype": "float16",
    "use_cache": True, "use_parallel_residual": True, "vocab_size": 50304,
}  # fmt: skip


def logits(weights, model, tokens):
    x = decoder.embed(weights, tokens[None], model)
    for index in range(model.n_layers):
        x = decoder.layer(weights, index, x, model)
    whole = decoder.complete(weights)
    return (decoder.last(weights, x, model) @ whole["unembed"] + whole["unembed.b"])[0]


def read(made):
    model = hf.describe(made.config.to_dict(), "config.json")
    return model, hf.load(on_disk(made), model, "file")


def test_logits_are_those_of_transformers(capsys):
    """The largest difference of a logit, in nats, on random and on trained weights."""
    table = []
    for case in CASES:
        for trained in (False, True):
            made, tokens = net(case, trained=trained), tokens_of(5)
            model, weights = read(made)
            with torch.no_grad():
                found, wanted = logits(weights, model, tokens), made(tokens).logits[:, :-1]
            apart = float((found - wanted).abs().max())
            table.append(f"{case:22} {'trained' if trained else 'random':8} {apart:.1e} of {float(wanted.std()):.1f}")
            assert apart < 1e-5 * max(1.0, float(wanted.abs().max())), table[-1]
    with capsys.disabled():
        print("\nlogits against transformers, largest difference of their spread:", *table, sep="\n  ")


@pytest.mark.parametrize("case", CASES)
def test_what_is_taken_apart_is_put_together_bit_for_bit(case):
    state = on_disk(net(case))
    model, weights = read(net(case))
    assert {name: tuple(array.shape) for name, array in weights.items()} == shapes(model)
    back = hf.save({name: array.clone() for name, array in weights.items()}, model)
    assert all(array.is_contiguous() and torch.equal(array, state[name]) for name, array in back.items())
    left_out = set(state) - set(back)
    assert left_out == ({"lm_head.weight", "embed_out.weight"} & set(state) if model.tied else set())
    again = hf.load(back, model, "file")
    assert all(torch.equal(again[name], weights[name]) for name in weights)


def test_heads_of_fused_matrices_are_where_the_architectures_have_them():
    made, width = net("gpt_neox"), 8
    _, weights = read(made)
    fused = made.state_dict()["gpt_neox.layers.1.attention.query_key_value.weight"]
    assert torch.equal(weights["L1.k"][2], fused[(2 * 3 + 1) * width : (2 * 3 + 2) * width].T)
    _, weights = read(net("gpt2"))
    fused = net("gpt2").state_dict()["transformer.h.1.attn.c_attn.weight"]
    assert torch.equal(weights["L1.v"][3], fused[:, 2 * 32 + 3 * width : 2 * 32 + 4 * width])


@pytest.mark.parametrize("size", PYTHIA)
def test_pythia_has_its_published_number_of_parameters(size):
    layers, width, heads, inner, count = PYTHIA[size]
    config = OLD_PYTHIA | {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads,
                           "intermediate_size": inner}  # fmt: skip
    model = hf.describe(config, "config.json")
    assert sum(int(np.prod(shape)) for shape in shapes(model).values()) == count
    assert (model.d_rotary, model.parallel, model.n_ctx) == (width // heads // 4, True, 2048)


@pytest.mark.parametrize(
    ("config", "count"),
    [
        ({"model_type": "gpt2"}, 124_439_808),
        ({"model_type": "llama"}, 6_738_415_616),
        ({"model_type": "mistral", "rms_norm_eps": 1e-5}, 7_241_732_096),
        ({"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14,
          "num_hidden_layers": 24, "num_key_value_heads": 2, "rope_theta": 1e6, "tie_word_embeddings": True},
         494_032_768),
    ],
)  # fmt: skip
def test_other_published_models_have_their_number_of_parameters(config, count):
    """With what a config.json leaves out at its default."""
    model = hf.describe(config, "config.json")
    assert sum(int(np.prod(shape)) for shape in shapes(model).values()) == count


def test_a_window_bounds_the_context():
    mistral = {"model_type": "mistral", "max_position_embeddings": 32768}
    assert hf.describe(mistral, "c").n_ctx == 4096
    assert hf.describe(mistral | {"sliding_window": None}, "c").n_ctx == 32768
    assert hf.describe({"model_type": "qwen2"}, "c").n_ctx == 32768
    assert hf.describe({"model_type": "qwen2", "use_sliding_window": True}, "c").n_ctx == 4096


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bert"}, "c: model kind bert found, expected gpt_neox, gpt2, llama, mistral, qwen2."),
        ({"model_type": None}, "c: model kind None found, expected"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "c: rotary positions of type linear are not computed"),
        ({"hidden_act": "mish"}, "c: hidden_act: 'mish' is not one of: gelu"),
        ({"hidden_size": "wide"}, "c: a size in it is not a whole number above 0."),
        ({"num_attention_heads": 0}, "c: a size in it is not a whole number above 0."),
        ({"num_hidden_layers": 2.5}, "c.n_layers: 2.5 is not a whole number."),
        ({"rotary_pct": 0.01}, "c.d_rotary: 0 cannot be with positions rotary"),
        ({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": True}, "c: scale_attn_by_inverse_layer_idx True is"),
    ],
)
def test_what_is_not_computed_is_refused(change, message):
    with pytest.raises(Mistake) as told:
        hf.describe(OLD_PYTHIA | change, "c")
    assert str(told.value).startswith(message)


def test_older_files_are_read():
    made = net("gpt_neox")
    model, weights = read(made)
    buffers = {
        f"gpt_neox.layers.0.attention.{name}": torch.zeros(1) for name in ("bias", "masked_bias", "rotary_emb.inv_freq")
    }
    assert hf.load(on_disk(made) | buffers, model, "file").keys() == weights.keys()
    made = net("gpt2")
    model, weights = read(made)
    bare = {name.removeprefix("transformer."): a for name, a in made.state_dict().items() if "lm_head" not in name}
    found = hf.load(bare | {"h.0.attn.bias": torch.zeros(1)}, model, "file")
    assert all(torch.equal(found[name], weights[name]) for name in weights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("gpt_neox.layers.1.mlp.dense_4h_to_h.bias"), "missing (1 in all) for decoder, n_layers 3"),
        (lambda s: s.update(more=torch.zeros(1)), "file: holds 'more', which this model (decoder"),
        (lambda s: s.update({"gpt_neox.embed_in.weight": torch.zeros(7, 32)}),
         f"file: gpt_neox.embed_in.weight has shape (7, 32); this model (decoder, n_layers 3, n_heads 4, d_model 32, "
         f"d_head 8, n_ctx {LENGTH}, d_vocab {VOCAB}, positions rotary"),
    ],
)  # fmt: skip
def test_other_states_are_refused(change, message):
    state = dict(on_disk(net("gpt_neox")))
    model, _ = read(net("gpt_neox"))
    change(state)
    for read_with in (hf.load, hf.check):
        with pytest.raises(Mistake) as told:
            read_with(state, model, "file")
        assert message in str(told.value)


def test_a_tied_unembedding_that_is_another_is_refused():
    model, _ = read(net("gpt2"))
    state = dict(on_disk(net("gpt2")))
    state["lm_head.weight"] = state["lm_head.weight"] + 1
    with pytest.raises(Mistake, match=r"lm_head\.weight is not the embedding"):
        hf.load(state, model, "file")


def masks(made, layer, head):
    """Of each parameter of the library's model, which of its entries are a head's own (width 8 of 32)."""
    own, found = slice(8 * head, 8 * head + 8), {}
    for name, array in made.named_parameters():
        mask = torch.zeros_like(array, dtype=torch.bool)
        if name.startswith(f"gpt_neox.layers.{layer}.attention.query_key_value"):
            mask[24 * head : 24 * head + 24] = True
        elif name == f"gpt_neox.layers.{layer}.attention.dense.weight":
            mask[:, own] = True
        elif name.startswith(f"transformer.h.{layer}.attn.c_attn"):
            mask.unflatten(-1, (3, 32))[..., own] = True
        elif name == f"transformer.h.{layer}.attn.c_proj.weight":
            mask[own] = True
        found[name] = mask
    return found


def loss_of(made, tokens):
    """Mean next-token cross-entropy in the model's own precision; the library's own loss is in float32."""
    return torch.nn.functional.cross_entropy(made(tokens).logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def by_hand(made, tokens, rows_CSB, sampler, which):
    """The chains without noise through the library's own model, in whole gradients and masks: λ̂ of each chain."""
    found = []
    for rows_SB in rows_CSB:
        still, moving = made, copy.deepcopy(made)
        excess = []
        for rows_B in rows_SB:
            batch = tokens[rows_B]
            loss = loss_of(moving, batch)
            with torch.no_grad():
                excess.append(float(loss - loss_of(still, batch)))
            slopes = torch.autograd.grad(loss, list(moving.parameters()))
            with torch.no_grad():
                for (name, w), start, slope in zip(moving.named_parameters(), still.parameters(), slopes, strict=True):
                    drift = sampler.nbeta * slope + sampler.gamma * (w - start)
                    w -= sampler.lr / 2 * drift * which[name]
        found.append(sampler.nbeta * np.mean(excess[sampler.burn_in :]))
    return found


@pytest.mark.parametrize("layer", [1, 2])
@pytest.mark.parametrize("case", ["gpt_neox", "gpt_neox sequential", "gpt2"])
def test_a_head_has_the_coefficient_that_the_library_s_own_model_gives(case, layer, monkeypatch):
    made, tokens = copy.deepcopy(net(case, trained=True)).double(), tokens_of(30)
    sampler = Sampler(lr=1e-2, nbeta=30, gamma=10, chains=2, draws=6, burn_in=2, batch=4, dtype="float64")
    model, weights = read(made)
    part = f"L{layer}H2"
    task = Task(run="r", weights="w", step=1, part=part, dataset="d", rows="x", metric="llc", seed=0, sampler=sampler)
    monkeypatch.setattr(backend, "run", partial(backend.run, noise=0.0))
    found = llc.measure(task, Pool.of(weights, model, tokens.numpy(), sampler))
    rows_CSB = llc.minibatches(task, len(tokens), range(2))
    wanted = by_hand(made, tokens, rows_CSB, sampler, masks(made, layer, 2))
    assert max(map(abs, wanted)) > 1e-3
    assert found.chains_C == pytest.approx(wanted, abs=1e-9)

import math
import sys
from pathlib import Path

import pytest
import torch

from rllc.config import Model
from rllc.metrics import ablation, composition, multigrams, patching, patterns
from rllc.models import attention, decoder

sys.path.append(str(Path(__file__).parent))
from planted_circuit import MODEL, induction, pool, task, twice

GQA = Model(
    3, 4, 16, 4, 9, 8, "rotary", n_kv=2, d_rotary=4, norm="rms", d_mlp=24, activation="silu", gated=True,
    bias_qkv=False, bias_o=False, bias_mlp=False, bias_unembed=False,
)  # fmt: skip
PARALLEL = Model(3, 4, 16, 4, 9, 8, "rotary", d_rotary=2, d_mlp=24, parallel=True)
SHAPES = [Model(3, 4, 16, 4, 9, 8, "learned"), GQA, PARALLEL]
KINDS = [ablation.zero, ablation.mean, ablation.resample]


def random(model, seed=0):
    return {name: array.double() for name, array in decoder.init(model, seed).items()}


def losses(weights, tokens, model, *, without=None, instead=None, only=None):
    """Loss of each token; head `without` = (layer, head) writes `instead` (N, L, E), to `only` one reader if given."""
    x, shared = decoder.embed(weights, tokens[None], model), model.n_heads // (model.n_kv or model.n_heads)
    weights = decoder.complete(weights)
    frozen = clean_reads(weights, tokens, model) if only else None
    for index in range(model.n_layers):
        reads = frozen[index] if only else x
        outs = [single(weights, index, head, reads, model, shared) for head in range(model.n_heads)]
        if without and not only and index == without[0]:
            outs[without[1]] = instead[None]
        if only and index == only[0]:
            sender = single(weights, *without, frozen[without[0]], model, shared)
            changed = single(weights, *only, reads - sender + instead[None], model, shared)
            middle = x + sum(outs) - outs[only[1]] + changed + bias(weights, index)
            x = decoder.finish(weights, index, x, middle, model)
            for above in range(index + 1, model.n_layers):
                x = decoder.layer(weights, above, x, model)
            break
        x = decoder.finish(weights, index, x, x + sum(outs) + bias(weights, index), model)
    logits = decoder.last(weights, x, model)[0] @ weights["unembed"] + weights["unembed.b"]
    return torch.nn.functional.cross_entropy(logits.mT, tokens[:, 1:], reduction="none")


def clean_reads(weights, tokens, model):
    x, found = decoder.embed(weights, tokens[None], model), []
    for index in range(model.n_layers):
        found.append(x)
        x = decoder.layer(weights, index, x, model)
    return found


def bias(weights, index):
    return weights.get(f"L{index}.bo", 0)


def single(weights, layer, head, x, model, shared):
    """A head's output from its attention pattern: another way than the pool's."""
    own = attention.matrices(weights, layer)
    value = attention.inputs(weights, layer, x, model) @ own["v"][head // shared]
    if "bv" in own:
        value = value + own["bv"][head // shared]
    return attention.patterns(weights, layer, x, model)[:, :, head] @ value @ own["o"][head]


@pytest.mark.parametrize("model", SHAPES, ids=["attention", "grouped", "parallel"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_ablated_head_is_a_forward_pass_with_another_output(model, kind):
    weights, tokens = random(model), twice(10)
    shared, other = model.n_heads // (model.n_kv or model.n_heads), ablation.partners(pool(weights, tokens, model))
    for layer, head in ((0, 1), (1, 3), (2, 0)):
        reads = clean_reads(decoder.complete(weights), tokens, model)[layer]
        output = single(weights, layer, head, reads, model, shared)[0]
        instead = {"zero": 0 * output, "mean": output.mean((0, 1)).expand_as(output), "resample": output[other]}
        expected = losses(weights, tokens, model, without=(layer, head), instead=instead[kind.__name__])
        rise = (expected - losses(weights, tokens, model)).mean(1)
        got = ablation.measure(task(f"L{layer}H{head}"), pool(weights, tokens, model), kind=kind)
        assert got.value == pytest.approx(rise.mean().item(), abs=1e-12)
        assert got.error == pytest.approx(rise.std().item() / math.sqrt(10))
        assert abs(got.value) > 1e-4


@pytest.mark.parametrize("model", SHAPES, ids=["attention", "grouped", "parallel"])
def test_a_patched_path_changes_what_one_head_reads_and_nothing_else(model):
    weights, tokens = random(model), twice(10)
    shared, other = model.n_heads // (model.n_kv or model.n_heads), ablation.partners(pool(weights, tokens, model))
    for low, high in (((0, 1), (1, 3)), ((0, 2), (2, 0)), ((1, 0), (2, 3))):
        reads = clean_reads(decoder.complete(weights), tokens, model)[low[0]]
        instead = single(weights, *low, reads, model, shared)[0][other]
        rise = losses(weights, tokens, model, without=low, instead=instead, only=high) - losses(weights, tokens, model)
        part = "+".join(f"L{layer}H{head}" for layer, head in (low, high))
        got = patching.measure(task(part, "path_patching"), pool(weights, tokens, model))
        assert got.value == pytest.approx(rise.mean().item(), abs=1e-12)
        assert abs(got.value) > 1e-6


def test_partners_are_others_and_each_is_one():
    for count in (2, 3, 17):
        other = ablation.partners(pool(random(MODEL), twice(count))).tolist()
        assert sorted(other) == list(range(count))
        assert all(one != row for row, one in enumerate(other))


def test_the_planted_circuit_shows_in_every_metric():
    """Two heads make induction, two do nothing; each number is known from how they were built."""
    weights, tokens = induction(), twice()
    own = pool(weights, tokens)
    previous = patterns.measure(task("L0H0"), own, patterns.prev_token)
    assert previous.value > 0.99
    prefix = patterns.measure(task("L1H0", "prefix"), own, patterns.prefix)
    assert prefix.value > 0.99
    for kind in (ablation.zero, ablation.mean, ablation.resample):
        for part in ("L0H0", "L1H0"):
            assert ablation.measure(task(part), own, kind=kind).value > 0.3
        for part in ("L0H1", "L1H1"):
            assert ablation.measure(task(part), own, kind=kind).value == 0
    path = {part: patching.measure(task(part), own).value for part in ("L0H0+L1H0", "L0H0+L1H1", "L0H1+L1H0")}
    assert path["L0H0+L1H0"] > 0.3
    assert path["L0H0+L1H1"] == path["L0H1+L1H0"] == 0


def test_without_the_second_saying_the_head_that_copies_is_needed_for_the_copied_tokens_alone():
    weights, tokens = induction(), twice()
    own = pool(weights, tokens)
    effect = ablation.effects(own, 1, 0, ablation.zero)
    told = torch.zeros_like(effect, dtype=torch.bool)
    told[:, 5:] = True  # the first token of the second saying cannot be told: nothing before it is a copy
    assert (effect[told] > 1).all()
    classes = multigrams.classes(tokens.numpy().tobytes(), tuple(tokens.shape), None)[0][:, 1:]
    assert (classes[:, 5:] == multigrams.CLASSES.index("induction")).all()
    assert (classes[:, :5] != multigrams.CLASSES.index("induction")).all()
    counted = multigrams.count(task("L1H0", "induction_tokens"), own, kind="induction")
    assert counted.value == pytest.approx(1000 * 3 / 8)
    assert multigrams.count(task("L1H1", "induction_tokens"), own, kind="induction").value == 0


def test_composition_shows_which_slot_is_read():
    """L1H0 reads keys where L0H0 writes, and queries and values elsewhere."""
    found = {kind: composition.measure(task("L0H0+L1H0", f"{kind}_composition"), pool(induction(), twice()), kind=kind)
             for kind in "qkv"}  # fmt: skip
    assert found["k"].value > 0.3
    assert found["q"].value < 0.03  # the norm takes the mean out, so that slots are not quite orthogonal
    assert found["v"].value < 0.03
    idle = composition.measure(task("L0H1+L1H0"), pool(induction(), twice()), kind="k")
    assert idle.value == 0


@pytest.mark.parametrize("model", SHAPES, ids=["attention", "grouped", "parallel"])
def test_composition_is_the_ratio_of_dense_norms(model):
    weights = random(model)
    for name, array in weights.items():
        if name.endswith("ln1.w"):
            array += torch.linspace(0, 1, len(array))
    shared = model.n_heads // (model.n_kv or model.n_heads)
    centre = torch.eye(16).double() - (1 / 16 if model.norm == "layer" else 0)

    def of(layer, head):
        scaled = centre @ weights[f"L{layer}.ln1.w"].diag()
        q, k, v = (scaled @ weights[f"L{layer}.{name}"][head if name == "q" else head // shared] for name in "qkv")
        return q @ k.T, v @ weights[f"L{layer}.o"][head]

    (_, writes), (qk, ov) = of(0, 3), of(2, 1)
    for kind, reads in (("q", qk), ("k", qk.T), ("v", ov)):
        dense = (writes @ reads).norm() / writes.norm() / reads.norm()
        got = composition.measure(task("L0H3+L2H1"), pool(weights, twice(2), model), kind=kind)
        assert got.value == pytest.approx(dense.item(), abs=1e-12)

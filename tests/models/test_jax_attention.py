import math

import numpy as np
import pytest
import torch

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

from rllc.models import causal, jax_attention, jax_loss


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def draw(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.standard_normal(shape)) for shape in shapes]


@pytest.mark.parametrize("length", [5, 70])
def test_attention_and_its_gradient_are_those_of_torch(length):
    query, key, value, weight = draw((3, length, 4), (3, 4, length), (3, 4, length), (3, length, 4))

    def ours(query, key, value):
        return (jax_attention.attend(query, key, value) * weight).sum()

    total, grads = jax.jit(jax.value_and_grad(ours, (0, 1, 2)))(query, key, value)
    theirs = [torch.tensor(np.array(array), requires_grad=True) for array in (query, key, value)]
    mixed = causal.attend(theirs[0].transpose(1, 2), theirs[1], theirs[2]).transpose(1, 2)
    known = (mixed * torch.tensor(np.array(weight))).sum()
    known.backward()
    assert float(total) == pytest.approx(known.item(), abs=1e-12)
    for found, array in zip(grads, theirs, strict=True):
        np.testing.assert_allclose(found, array.grad, atol=1e-12)


def test_products_round_both_factors_to_bfloat16_and_sum_exactly():
    x, weight, grad = draw((2, 7, 5), (5, 3), (2, 7, 3))
    half_x, half_weight, half_grad = (np.asarray(a.astype(jnp.bfloat16), float) for a in (x, weight, grad))
    out, back = jax.vjp(lambda x, w: jax_attention.product(x, w, True), x, weight)
    grad_x, grad_weight = back(grad)
    np.testing.assert_allclose(out, half_x @ half_weight, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(grad_x, half_grad @ half_weight.T, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(grad_weight, np.einsum("bne,bnf->ef", half_x, half_grad), rtol=1e-6, atol=1e-6)
    assert abs(out - x @ weight).max() > 1e-4


TOKENS = np.random.default_rng(1).integers(11, size=12), np.random.default_rng(2).random(12)


def by_hand(logits_NV):
    target_N, weight_N = TOKENS
    token_N = jax.nn.logsumexp(logits_NV, 1) - logits_NV[jnp.arange(12), target_N]
    return (token_N * weight_N).sum(), token_N


def same(found, known):
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(known), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("tokens", [12, 4, 1])
def test_frozen_unembedding_gives_the_loss_and_the_gradient_written_out(tokens):
    x, weight, bias = draw((12, 6), (6, 11), 11)
    chunks = jax_loss.Chunks(tokens, False)
    found = jax.value_and_grad(lambda x: jax_loss.frozen(chunks, x, (weight, bias), TOKENS), has_aux=True)
    same(jax.jit(found)(x), jax.value_and_grad(lambda x: by_hand(x @ weight + bias), has_aux=True)(x))


@pytest.mark.parametrize("tokens", [12, 4])
def test_moving_unembedding_gives_the_loss_and_all_gradients_written_out(tokens):
    moving = draw((12, 6), (6, 11), 11)
    chunks = jax_loss.Chunks(tokens, False)

    def ours(x, weight, bias):
        return jax_loss.moving(chunks, x, (weight, bias), TOKENS)

    known = jax.value_and_grad(lambda x, w, b: by_hand(x @ w + b), (0, 1, 2), has_aux=True)(*moving)
    same(jax.jit(jax.value_and_grad(ours, (0, 1, 2), has_aux=True))(*moving), known)


@pytest.mark.parametrize("base", [True, False])
@pytest.mark.parametrize("tokens", [12, 3])
def test_loss_through_a_head_gives_the_gradients_of_the_whole_product(tokens, base):
    z, way, still, rest, offset = draw((12, 2), (2, 11), (2, 11), (12, 11), 11)
    scale = np.random.default_rng(3).random(12) + 0.5

    def known(z, way, scale):
        return by_hand((rest + z @ (still + way)) * scale[:, None] + offset)

    left, right = (z, still + way) if base else (np.eye(12), rest + z @ (still + way))
    fixed = (rest if base else None, left, right, still, offset)
    chunks = jax_loss.Chunks(tokens, False)
    found = jax.value_and_grad(lambda *m: jax_loss.through_head(chunks, m, fixed, TOKENS), (0, 1, 2), has_aux=True)
    same(jax.jit(found)(z, way, scale), jax.value_and_grad(known, (0, 1, 2), has_aux=True)(z, way, scale))


def test_chunks_divide_the_tokens():
    assert [jax_loss.divisor(512, most) for most in (10_000, 511, 100, 0)] == [512, 256, 64, 1]
    assert jax_loss.divisor(63, 10) == 9


def test_blocks_of_queries_cover_all_of_them():
    for length in (1, 31, 32, 33, 100, 129, 1024):
        blocks = jax_attention._blocks(length)
        assert [at for start, stop in blocks for at in range(start, stop)] == list(range(length))
        assert len(blocks) <= max(1, min(4, math.ceil(length / 32)))

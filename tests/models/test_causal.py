"""Attention with patterns that are kept, and fused without them: one value and one gradient."""

import pytest
import torch

from rllc.models import causal


@pytest.mark.parametrize("length", [1, 31, 130])
def test_both_ways_have_one_value_one_gradient_and_one_layout(length, monkeypatch):
    generator, found = torch.Generator().manual_seed(0), []
    given = [torch.randn(3, 5, length, generator=generator, dtype=torch.float64) for _ in range(4)]
    for largest in (causal.PATTERN_SIZE, 0):
        monkeypatch.setattr(causal, "PATTERN_SIZE", largest)
        live = [array.clone().requires_grad_() for array in given[:3]]
        mixed = causal.attend(*live)
        assert mixed.is_contiguous()
        found.append([mixed, *torch.autograd.grad(mixed, live, given[3])])
    for kept, fused in zip(*found, strict=True):
        torch.testing.assert_close(kept, fused, atol=1e-12, rtol=1e-10)


def test_the_fused_way_keeps_no_patterns(monkeypatch):
    monkeypatch.setattr(causal, "PATTERN_SIZE", 0)
    live, kept = [torch.randn(3, 5, 130, requires_grad=True) for _ in range(3)], []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda array: kept.append(array.numel()) or array, lambda array: array
    ):
        causal.attend(*live)
    assert max(kept) < 130 * 130

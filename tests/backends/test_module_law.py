import numpy as np
import torch
from quadratic import Law
from torch import nn

import rllc


class Bowl(nn.Module):
    """w ↦ ½ Σ h w²."""

    def __init__(self, curvature):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(len(curvature)))
        self.register_buffer("curvature", torch.tensor(curvature))

    def forward(self, _):
        return (self.curvature * self.w**2).sum() / 2


def test_on_a_quadratic_the_estimate_is_the_closed_form():
    """Within four standard errors of the law of SGLD itself, step bias and burn-in included."""
    curvature = [0.5, 1.0, 2.0, 4.0, 8.0] * 4
    sampler = rllc.Sampler(lr=1e-3, nbeta=100, gamma=50, chains=16, draws=400, burn_in=100, batch=1)
    got = rllc.estimate_module(Bowl(curvature), lambda m, b: m(b), torch.zeros(3, 1), sampler=sampler)
    law = Law.of(np.diag(curvature), sampler)
    assert got.error < 0.02 * law.value
    assert abs(got.value - law.value) < 4 * got.error
    assert abs(law.value - law.exact) > 4 * got.error  # so that the step bias would be seen

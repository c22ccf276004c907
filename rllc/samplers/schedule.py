"""The step size over time."""

from typing import Any

from rllc.task import Sampler


def rate(sampler: Sampler, t: Any) -> Any:
    """Step size ε of step t: lr · min(1, (t + 1)/warmup), or lr throughout when warmup is 0.

    t may be a traced integer of jax; the minimum is taken in integers, so that ε is exactly lr after the warm-up.
    """
    if sampler.warmup == 0:
        return sampler.lr
    count = (t + 1 + sampler.warmup - abs(t + 1 - sampler.warmup)) // 2
    return sampler.lr * (count / sampler.warmup)

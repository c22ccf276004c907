"""How often the intervals hold what they say: repeated estimates of quadratic losses whose SGLD law is known exactly.

    python bench/interval_coverage.py

d = 6, 200 repetitions of 4 chains × 200 draws for each line. First table: coverage of the sampler's own expectation at
these finite draws and steps. Second: how far the estimate is from the exact value (ε → 0, endless chains) and how often
the interval holds that, as reported and with `bias: removed`; then both relative biases by the law, and as told by the
columns bias_step, bias_step_most and bias_burn_in.
"""

import dataclasses
import sys
from pathlib import Path

import numpy as np

sys.path += [str(Path(__file__).parents[1] / "tests" / folder) for folder in ("backends", "metrics")]
from quadratic import Law
from repeated import HESSIAN, PAPER, estimates, held

SETTINGS = [  # name, changes, variance of a row's gradient in each direction
    ("paper", {}, 0.0),
    ("γ 50", {"gamma": 50.0}, 0.0),
    ("minibatch noise", {}, 4.0),
    ("burn-in 30", {"burn_in": 30}, 0.0),
    ("γ 50, every 4", {"gamma": 50.0, "every": 4}, 0.0),
    ("one chain", {"chains": 1}, 0.0),
    ("ε 2.5e-4, burn-in 80, every 4", {"lr": 2.5e-4, "burn_in": 80, "every": 4}, 0.0),
    ("ε 4e-3", {"lr": 4e-3}, 0.0),
]
TOLD = ("bias_step", "bias_step_most", "bias_burn_in")


def main():
    """Print both tables."""
    lines = []
    print("setting | expectation | mean | median error | coverage by t | by z")
    for seed, (name, changes, variance) in enumerate(SETTINGS):
        sampler = dataclasses.replace(PAPER, **changes)
        law = Law.of(HESSIAN, sampler, noise=variance)
        reported, removed = estimates(sampler, variance=variance, seed=seed)
        mean, error = np.mean([one.value for one in reported]), np.median([one.error for one in reported])
        by_t, by_z = held(reported, law.value), held(reported, law.value, np.inf)
        print(f"{name} | {law.value:.4f} | {mean:.4f} | {error:.4f} | {by_t:.1%} | {by_z:.1%}", flush=True)
        off, left = (np.mean([one.value for one in made]) / law.exact - 1 for made in (reported, removed))
        least, most, burn_in = np.mean([[one.stats[key] for key in TOLD] for one in reported], 0)
        lines.append(
            f"{name} | {law.exact:.4f} | {off:+.1%} | {left:+.1%} | {held(reported, law.exact):.1%} | "
            f"{held(removed, law.exact):.1%} | {1 - law.exact / law.stationary:.1%} | {least:.1%} to {most:.1%} | "
            f"{law.value / law.stationary - 1:+.1%} | {burn_in:+.1%}"
        )
    print(
        "\nsetting | exact | off: reported | removed | coverage: reported | removed | step bias | told | burn-in | told"
    )
    print("\n".join(lines))


if __name__ == "__main__":
    main()

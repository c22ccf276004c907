"""How many chains an asked error takes, decided on a pilot that is then thrown away (Stein 1945).

A rule that looks at the reported chains stops when their spread happens to be small, and its intervals are too
narrow. The pilot's chains decide here, fresh ones alone are reported, so these keep Student's law.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rllc.task import Budget, Sampler

ASSURANCE = 0.9  # probability that the asked error is reached with the chains that are run


def asked(budget: Budget, value: float) -> float:
    """Return the standard error that is asked for at this value (nats): max(relative · |λ̂|, absolute)."""
    return max(budget.relative * abs(value), budget.absolute)


def chains(pilot_C: NDArray[np.float64], sampler: Sampler, reference_error: float = 0.0) -> int:
    """How many fresh chains to run, in whole blocks of `sampler.chains`, at most `budget.chains`.

    The least n with s² F(n − 1, C − 1)/n ≤ asked² − reference², where s² is the variance between the C chain means of
    the pilot and F the 90 % quantile of the ratio of two variances: what the n chains will show reaches the asked
    error with that probability. All errors in nats.
    """
    assert sampler.budget is not None
    block = sampler.chains
    n = block * np.arange(1, sampler.budget.chains // block + 1)
    rest = asked(sampler.budget, float(pilot_C.mean())) ** 2 - reference_error**2
    expected = pilot_C.var(ddof=1) * special.fdtri(n - 1, len(pilot_C) - 1, ASSURANCE) / n
    enough = n[expected <= rest]
    if rest <= 0:  # no number of chains helps
        return block
    return int(enough[0] if len(enough) else n[-1])


def shortfall(budget: Budget, value: float, error: float, chains: int) -> str:
    """Say in a few words that the asked error was not reached; empty when it was."""
    wanted = asked(budget, value)
    if error <= wanted or math.isnan(error):
        return ""
    return f"error {error:.2g} with {chains} chains, {wanted:.2g} was asked for"

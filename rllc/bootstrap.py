"""Other curves that the same chains could have given: what the error bars say about a whole set of curves.

Shape letters: B draws, P parts, D datasets, T training steps, C chains.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rllc.trajectories import Trajectories

Values = NDArray[np.float64]
How = Literal["chains", "errors", "none"]


def how(curves: Trajectories) -> How:
    """Say what the draws rest on: the means of the chains, the standard errors, or nothing that is known."""
    if curves.chain_PDTC is not None:
        return "chains"
    return "errors" if np.isfinite(curves.error_PDT).any() and np.nansum(curves.error_PDT) > 0 else "none"


def draws(curves: Trajectories, count: int, *, seed: int) -> Values:
    """Draw curves about the estimates.

    From chains: in each dataset C of the C chains are taken with replacement, the same for all parts and steps, since
    chain c runs on the same minibatches for each of them; so what heads have in common stays in common. The deviation
    of the mean is widened by √(C/(C − 1)), which makes its variance the squared standard error (Efron, The Jackknife,
    the Bootstrap, 1982, chapter 5; without it four chains give 3/4 of it). From errors: independent normal deviations
    of that size, 0 where the error is unknown; they cannot show what heads have in common.

    Returns:
        value_BPDT: the draws; none where `how` says that nothing is known.
    """
    rng, basis = np.random.default_rng(seed), how(curves)
    if basis == "none" or not count:
        return np.empty((0, *curves.value_PDT.shape))
    if basis == "errors":
        error_PDT = np.where(np.isfinite(curves.error_PDT), curves.error_PDT, 0.0)
        return curves.value_PDT + error_PDT * rng.standard_normal((count, *error_PDT.shape))
    assert curves.chain_PDTC is not None
    chains = curves.chain_PDTC.shape[3]
    centred_PDTC = curves.chain_PDTC - curves.chain_PDTC.mean(axis=3, keepdims=True)
    share_BDC = rng.multinomial(chains, np.full(chains, 1 / chains), size=(count, len(curves.datasets))) / chains
    moved_BPDT = np.einsum("bdc,pdtc->bpdt", share_BDC, centred_PDTC, optimize=True)
    return np.asarray(curves.value_PDT + np.sqrt(chains / (chains - 1)) * moved_BPDT)

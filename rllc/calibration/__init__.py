"""Which ε, γ and nβ the chains of a sweep should have: a grid of short chains, and a recommendation with its reasons.

γ and nβ say what is measured; ε only how well. So each (γ, nβ) has its own plateau in ε, where λ̂(ε) agrees with
λ̂(ε/2) and the known biases are small, and the largest ε on it is the cheapest. Of the pairs, the sweep's own is kept
unless another resolves the parts clearly better for the same work.
"""

from rllc.calibration.search import run

__all__ = ["run"]

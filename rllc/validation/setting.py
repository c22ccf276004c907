"""How the chains of a case are set: ε by the stiffest direction that they meet.

ε (nβ h + γ)/2 ≈ STEP makes λ̂ too large by at most 1/(1 − STEP/2); a row shows what it was where the chains ended. γ and
nβ are chosen by case, far enough apart for λ̂ to come near λ.
"""

from rllc.task import Sampler

STEP = 0.05


def chains(
    nbeta: float, gamma: float, *, stiffest: float, steps: int, count: int = 4, dtype: str = "float64"
) -> Sampler:
    """Set ε by the stiffest curvature h, and keep the second half of the steps."""
    lr = 2 * STEP / (nbeta * stiffest + gamma)
    return Sampler(
        lr=lr, nbeta=nbeta, gamma=gamma, chains=count, draws=steps // 2, burn_in=steps // 2, batch=1, dtype=dtype
    )

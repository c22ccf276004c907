"""Does the correction term Γ take the bias of RMSprop-SGLD away? On a quadratic, where it can be written down.

    python bench/rmsprop_correction.py

Each curvature h is a chain of its own, V and G as in `rllc.samplers.rmsprop`, the gradient exact (g = h δ). Variants:
    none        no Γ, as in devinterp
    (1−α) Γ     Γ = ∂G/∂w with V's dependence on the present gradient alone (Li et al. 2016)
    Γ           the same without the factor 1 − α: as if V followed the gradient at once
    Γ, α = 0    V does follow the gradient at once, so that Γ is exact
    frozen      no Γ; V stays as it is after ADAPT steps
Draws are taken from step 2 ADAPT on. A cell is λ̂, its deviation from the exact value, and the Monte Carlo error.
"""

import numpy as np

CURVATURES = np.array([0.01, 0.1, 1, 10, 100])
NBETA, GAMMA, EPS = 30.0, 200.0, 0.1
CHAINS, ADAPT, DRAWS = 4000, 1000, 3000
VARIANTS = {  # α, the share of Γ, whether V stays
    "none": (0.99, 0.0, False), "(1−α) Γ": (0.99, 0.01, False), "Γ": (0.99, 1.0, False), "Γ, α = 0": (0.0, 1.0, False),
    "frozen": (0.99, 0.0, True),
}  # fmt: skip


def chain(lr: float, alpha: float, share: float, frozen: bool) -> tuple[np.ndarray, np.ndarray]:
    """λ̂ of each curvature and its standard error over chains."""
    rng = np.random.default_rng(0)
    away_CH, square_CH = np.zeros((2, CHAINS, len(CURVATURES)))
    total_CH = np.zeros_like(away_CH)
    for t in range(2 * ADAPT + DRAWS):
        total_CH += (t >= 2 * ADAPT) * away_CH**2
        grad_CH = CURVATURES * away_CH
        if t < ADAPT or not frozen:
            square_CH = alpha * square_CH + (1 - alpha) * grad_CH**2
        root_CH = np.sqrt(square_CH)
        g_CH = 1 / (root_CH + EPS)
        gamma_CH = -share * g_CH**2 * grad_CH * CURVATURES / np.maximum(root_CH, 1e-300)
        drift_CH = g_CH * (NBETA * grad_CH + GAMMA * away_CH) - gamma_CH
        away_CH = away_CH - lr / 2 * drift_CH + np.sqrt(lr * g_CH) * rng.standard_normal(away_CH.shape)
    value_CH = NBETA * CURVATURES / 2 * total_CH / DRAWS
    return value_CH.mean(0), value_CH.std(0, ddof=1) / np.sqrt(CHAINS)


def main() -> None:
    exact = NBETA * CURVATURES / (NBETA * CURVATURES + GAMMA) / 2
    print("ε, variant".ljust(20) + "".join(f"h = {h:<22g}" for h in CURVATURES))
    print("exact".ljust(20) + "".join(f"{value:<26.4f}" for value in exact))
    for lr in (1e-3, 1e-4, 1e-5):
        for name, variant in VARIANTS.items():
            value, error = chain(lr, *variant)
            cells = (f"{v:.4f} {v / x - 1:+7.1%} ± {e / x:.1%}" for v, e, x in zip(value, error, exact, strict=True))
            print(f"{lr:<8g}{name:12}" + "".join(f"{cell:26}" for cell in cells))


if __name__ == "__main__":
    main()

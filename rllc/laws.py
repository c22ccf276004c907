"""Learning coefficients that are known exactly, and expectations of the estimator at finite nβ and γ.

λ and its multiplicity m say how the volume of {ℓ < c} shrinks: like c^λ (−ln c)^(m−1). The estimator approaches λ as
nβ grows at fixed γ, with corrections 1/ln nβ where m > 1 (Watanabe, Algebraic Geometry and Statistical Learning Theory,
2009). Every loss here is ½ E‖f_w(x) − f_w*(x)‖² or a polynomial, and x has covariance I.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Coefficient:
    """A learning coefficient λ and its multiplicity m ≥ 1."""

    value: Fraction
    multiplicity: int = 1

    def times(self, copies: int) -> "Coefficient":
        """λ of a sum of losses of independent weights: λ add up, and so do m − 1."""
        return Coefficient(copies * self.value, copies * (self.multiplicity - 1) + 1)


def regular(size: int) -> Coefficient:
    """λ = d/2 of a minimum whose Hessian has rank d (Schwarz 1978)."""
    return Coefficient(Fraction(size, 2))


def crossing(powers: Sequence[int]) -> Coefficient:
    """λ = min 1/(2k_i) of ℓ = ∏ w_i^(2k_i) at 0, m how many attain it (Watanabe 2009, §6)."""
    most = max(powers)
    return Coefficient(Fraction(1, 2 * most), list(powers).count(most))


def reduced_rank(inputs: int, hidden: int, outputs: int, rank: int) -> Coefficient:
    """λ of y = B A x with A: M → H, B: H → N, where the true map and both true factors have rank r.

    With M + N, M + H and N + H each at least r plus the third width:
    λ = (2(H + r)(M + N) − (M − N)² − (H + r)²)/8, m = 1, if M + H + N + r is even, else 1/8 more and m = 2;
    λ = MN/2 if M + N < H + r, (HM − Hr + Nr)/2 if M + H < N + r, (HN − Hr + Mr)/2 if N + H < M + r (m = 1)
    (Aoyagi and Watanabe, Neural Networks 18, 2005).
    """
    m, h, n, r = inputs, hidden, outputs, rank
    if m + n < h + r:
        return Coefficient(Fraction(m * n, 2))
    if m + h < n + r:
        return Coefficient(Fraction(h * m - h * r + n * r, 2))
    if n + h < m + r:
        return Coefficient(Fraction(h * n - h * r + m * r, 2))
    eighths = 2 * (h + r) * (m + n) - (m - n) ** 2 - (h + r) ** 2
    odd = (m + h + n + r) % 2
    return Coefficient(Fraction(eighths + odd, 8), 1 + odd)


def deep_linear(widths: Sequence[int], rank: int) -> Coefficient:
    """λ of y = W_L … W_1 x, where the true map and every true factor have rank r.

    With Δ_s = H_s − r, take the ℓ + 1 smallest, Σ Δ ≥ ℓ max Δ among them and Σ Δ < ℓ Δ for each one left out;
    M = ⌈Σ Δ/ℓ⌉, a = Σ Δ − (M − 1) ℓ. Then m = a(ℓ − a) + 1 and
    λ = (r(H_0 + H_L) − r²)/2 + a(ℓ − a)/(4ℓ) − (ℓ − 1)/(4ℓ) (Σ Δ)² + ½ Σ_{i<j} Δ_i Δ_j
    (Aoyagi, Neural Networks 172, 2024).
    """
    gaps = sorted(width - rank for width in widths)
    depth = next(
        ell for ell in range(1, len(gaps))
        if sum(gaps[: ell + 1]) >= ell * gaps[ell]
        and (ell + 1 == len(gaps) or sum(gaps[: ell + 1]) < ell * gaps[ell + 1])
    )  # fmt: skip
    chosen = gaps[: depth + 1]
    total = sum(chosen)
    rest = total - (-(-total // depth) - 1) * depth
    pairs = sum(one * other for one, other in itertools.combinations(chosen, 2))
    value = (
        Fraction(rank * (widths[0] + widths[-1]) - rank**2 + pairs, 2)
        + Fraction(rest * (depth - rest), 4 * depth)
        - Fraction((depth - 1) * total**2, 4 * depth)
    )
    return Coefficient(value, rest * (depth - rest) + 1)


def zero_map(inputs: int, hidden: int, outputs: int, rank: int) -> Coefficient:
    """λ of ℓ = ½‖B A‖² at B = 0 and A of rank a, another point of the zero set than A = B = 0.

    Near it the a directions of A are a basis on which B is regular, N a/2, and the rest is a smaller zero map:
    λ = N a/2 + λ_RRR(M − a, H − a, N, 0).
    """
    if rank in (inputs, hidden):
        return Coefficient(Fraction(outputs * rank, 2))
    rest = reduced_rank(inputs - rank, hidden - rank, outputs, 0)
    return Coefficient(Fraction(outputs * rank, 2) + rest.value, rest.multiplicity)


def frozen_factor(inputs: int, rank: int) -> Coefficient:
    """λ = M ρ/2 of A alone in y = B A x, with B frozen at rank ρ: a quadratic in A with so many directions."""
    return Coefficient(Fraction(inputs * rank, 2))


def bilinear_attention(width: int, head: int, rank: int) -> Coefficient:
    """λ of W_Q and W_K together in the score x W_Q W_Kᵀ x', x and x' independent: a reduced rank regression."""
    return reduced_rank(width, head, width, rank)


def quadratic(curvature_D: NDArray[np.float64], nbeta: float, gamma: float) -> float:
    """E λ̂ = ½ Σ nβh/(nβh + γ) on ℓ = ½ Σ h w², exact at every nβ and γ; ½ nβ/γ Tr H where all h ≪ γ/nβ."""
    stiff_D = nbeta * curvature_D
    return float((stiff_D / (stiff_D + gamma)).sum() / 2)


def pair(nbeta: float, gamma: float) -> float:
    """E λ̂ on ℓ = (w₁ w₂)², w₂ integrated out by hand and w₁ by quadrature; a function of nβ/γ² alone.

    λ = ½ with m = 2: the value lacks about 1/ln(nβ/γ²).
    """
    from scipy.integrate import quad

    ratio = 2 * nbeta / gamma**2

    def weight(u: float) -> float:  # at w₁ = eᵘ/√γ
        return math.exp(u - math.exp(2 * u) / 2) / math.sqrt(1 + ratio * math.exp(2 * u))

    def loss(u: float) -> float:
        square = ratio * math.exp(2 * u)
        return weight(u) * square / (1 + square) / 2

    kink = -math.log(ratio) / 2

    def integral(of: Callable[[float], float]) -> float:
        found = quad(of, kink - 30, 3.0, points=sorted({kink, 0.0}), limit=400, epsabs=0.0, epsrel=1e-10)
        return float(found[0])

    return integral(loss) / integral(weight)

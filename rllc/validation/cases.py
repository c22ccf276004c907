"""The potentials of `rllc validate` with their exact coefficients, and the setting of each with its reason."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from rllc import laws
from rllc.backends.contract import Potential
from rllc.laws import Coefficient
from rllc.task import Sampler
from rllc.validation import potentials
from rllc.validation.setting import chains


@dataclass(frozen=True)
class Case:
    """A potential, its exact learning coefficient at w*, and how it is sampled.

    Attributes:
        name: of the row.
        family: rows whose order is compared.
        exact: λ and m.
        sampler: options of the chains.
        build: makes the potential.
        expected: E λ̂ at this nβ and γ where a law gives it, else None.
        note: what the setting can and cannot reach.
        quick: whether it belongs to the quick table.
    """

    name: str
    family: str
    exact: Coefficient
    sampler: Sampler
    build: Callable[[], Potential]
    expected: float | None = None
    note: str = ""
    quick: bool = False


def every(*, quick: bool = False) -> list[Case]:
    """All cases in the order of the table, or the quick ones."""
    made = [*_regular(), *_crossing(), *_reduced(), *_frozen(), *_attention(), *_deep(), *_large()]
    return [case for case in made if case.quick or not quick]


def _regular() -> list[Case]:
    """Hessians of full rank, those with more weights softer: λ counts the weights, the paper's setting stiffness."""
    made = []
    for size, softest in ((20, 1.0), (60, 0.1), (100, 0.01)):
        curvature_D = np.geomspace(softest, 10 * softest, size)
        nbeta, gamma = 200 / softest, 1.0
        case = Case(
            f"quadratic, {size} curvatures {softest:g} … {10 * softest:g}",
            "regular",
            laws.regular(size),
            chains(nbeta, gamma, stiffest=10 * softest, steps=3000),
            partial(potentials.Quadratic, torch.from_numpy(curvature_D)),
            expected=laws.quadratic(curvature_D, nbeta, gamma),
            note="nβ h ≥ 200 γ in every direction",
            quick=size < 100,
        )
        made.append(case)
    return made


def _crossing() -> list[Case]:
    """Monomials, 64 copies of each, so that one chain says much."""
    made = [
        Case(
            f"64 × w^{2 * power}",
            "crossing",
            laws.crossing([power]).times(64),
            chains(nbeta, 0.1, stiffest=stiffest, steps=steps),
            partial(potentials.Crossing, [power], 64),
            note="γ w² ≪ 1 where nβ w^2k = 1",
        )
        for power, nbeta, stiffest, steps in ((1, 1e3, 2.0, 2000), (2, 1e4, 0.25, 6000), (3, 1e4, 0.2, 12000))
    ]
    pair = Case(
        "64 × (w₁ w₂)²",
        "crossing",
        laws.crossing([1, 1]).times(64),
        chains(100.0, 1.0, stiffest=4.0, steps=8000),
        partial(potentials.Crossing, [1, 1], 64),
        expected=64 * laws.pair(100.0, 1.0),
        note="m > 1: λ̂ lacks about 1/ln(nβ/γ²) of each ½, which is small only where no chain mixes",
    )
    return [*made, pair]


def _reduced() -> list[Case]:
    """Two matrices, both of the rank of their product at w* but in the last two rows."""
    mapped = [
        _product("reduced rank", widths, rank, chains(1e3, 1.0, stiffest=stiffest, steps=4000))
        for widths, rank, stiffest in (
            ((16, 8, 16), 0, 2.0), ((16, 8, 16), 4, 4.0), ((12, 30, 10), 3, 6.0), ((30, 12, 20), 6, 4.0)
        )
    ]  # fmt: skip
    elsewhere = Case(
        "16 → 8 → 16, B = 0 and A of rank 6",
        "reduced rank",
        laws.zero_map(16, 8, 16, 6),
        chains(1e3, 1.0, stiffest=3.0, steps=8000),
        partial(potentials.product, (16, 8, 16), (6, 0), seed=0),
        note="the map of rank 0 from another point of its zero set: λ is local; flat directions are not relaxed",
    )
    stretched = Case(
        "16 → 8 → 16, rank 4, at (5 A, B/5)",
        "rescaled",
        laws.reduced_rank(16, 8, 16, 4),
        chains(1e3, 1.0, stiffest=25.0, steps=4000),
        partial(potentials.stretched, (16, 8, 16), 4, 5.0, seed=0),
        note="the function and λ of (A, B), but curvatures 25 times larger and smaller: the softest are not relaxed",
    )
    return [*mapped, elsewhere, stretched]


def _frozen() -> list[Case]:
    """A alone in B A x: the refined coefficient of one factor, on a quadratic."""
    made = []
    for inputs, rank in ((6, 4), (20, 4), (20, 8)):
        build = partial(potentials.product, (inputs, 8, 12), (1, rank), seed=0, moving=(0,))
        curvature = torch.linalg.svdvals(build().true[1])[:rank].square().repeat(inputs)
        case = Case(
            f"A alone, {inputs} → 8 → 12, B of rank {rank}",
            "frozen factor",
            laws.frozen_factor(inputs, rank),
            chains(1e3, 1.0, stiffest=1.44, steps=1000),
            build,
            expected=laws.quadratic(curvature.numpy(), 1e3, 1.0),
            note="quadratic; nβ h ≥ 600 γ in every direction that counts",
            quick=inputs == 6,
        )
        made.append(case)
    return made


def _attention() -> list[Case]:
    """The score x W_Q W_Kᵀ x' of one head; W_1 is W_Kᵀ and W_2 is W_Q."""
    widths, setting = (24, 8, 24), chains(1e3, 1.0, stiffest=4.0, steps=4000)
    both = [
        Case(
            f"W_Q and W_K, 24 wide, head 8, rank {rank}",
            "attention score",
            laws.bilinear_attention(24, 8, rank),
            setting,
            partial(potentials.product, widths, (rank, rank), seed=0),
            note="a reduced rank regression of the score matrix",
        )
        for rank in (2, 6)
    ]
    alone = Case(
        "W_Q alone, 24 wide, head 8",
        "attention score",
        laws.frozen_factor(24, 8),
        chains(1e3, 1.0, stiffest=1.44, steps=1000),
        partial(potentials.product, widths, (8, 8), seed=0, moving=(1,)),
        note="W_K frozen at full rank",
    )
    return [*both, alone]


def _deep() -> list[Case]:
    """Three to five matrices, whose flat directions open slowly and lead to stiffer places."""
    note = "m > 1, and flat directions are not relaxed: λ̂ rises with the budget, and where they lead ε is too large"
    return [
        _product("deep linear", widths, rank, chains(1e3, 4.0, stiffest=stiffest, steps=12000), note=note)
        for widths, rank, stiffest in (
            ((8,) * 4, 4, 6.0), ((10, 16, 6, 16, 10), 3, 6.0), ((8,) * 6, 4, 8.0)
        )
    ]  # fmt: skip


def _large() -> list[Case]:
    """10⁴ to 10⁶ weights: two short chains in single precision, as many weights average within each draw."""
    note = "where flat directions lead ε is too large, which makes up for what is not relaxed: right by chance"
    return [
        _product("large", widths, rank, chains(nbeta, 1.0, stiffest=h, steps=steps, count=2, dtype="float32"), note=why)
        for widths, rank, nbeta, h, steps, why in (
            ((100, 50, 100), 25, 1e4, 4.0, 3000, ""), ((300, 160, 300), 80, 1e4, 4.0, 1500, ""),
            ((200, 1250, 200, 1250, 200), 100, 3e3, 8.0, 700, note),
        )
    ]  # fmt: skip


def _product(family: str, widths: Sequence[int], rank: int, sampler: Sampler, *, note: str = "") -> Case:
    """Matrices of one rank, all of them moving."""
    return Case(
        f"{' → '.join(map(str, widths))}, rank {rank}",
        family,
        laws.deep_linear(widths, rank),
        sampler,
        partial(potentials.product, widths, [rank] * (len(widths) - 1), seed=0, dtype=getattr(torch, sampler.dtype)),
        note=note,
    )

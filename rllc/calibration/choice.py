"""The plateau in ε of each (γ, nβ), the setting that is recommended, and the chains that an asked error takes."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

from rllc.calibration.finding import Finding, Share, step_bias
from rllc.calibration.grid import WAIT, Setting
from rllc.task import Sampler

BETTER = 1.25  # in signal, before the sweep's own γ and nβ are given up
LONG = 20.0  # length of a recommended chain in its longest autocorrelation time
CHAINS = 4  # the least, for the sake of the error bar's degrees of freedom


@dataclass(frozen=True)
class Judgement:
    """A setting beside its half step size.

    Attributes:
        finding: what its chains say; None where none was worth running.
        bias: its step bias, measured against ε/2; None where that was not tried or was dropped.
        fault: why it is not on the plateau; empty when it is.
        weak: whether that is only because other γ and nβ resolve the parts better.
    """

    finding: Finding | None
    bias: Share | None
    fault: str
    weak: bool = False


def judge(
    findings: Mapping[Setting, Finding],
    cannot: Mapping[Setting, str],
    dropped: Mapping[Setting, Judgement],
    tolerance: float,
) -> dict[Setting, Judgement]:
    """Every setting of the grid, in order: those that no chain was run for, that dropped out, and the others.

    ε is on the plateau of its (γ, nβ) when its chains are sound, the step bias that they tell of is within the
    tolerance, and the one measured against ε/2 is not beyond it for sure (its 95 % interval reaches below).
    """
    judged = {setting: Judgement(None, None, why) for setting, why in cannot.items()} | dict(dropped)
    whole = {setting: finding for setting, finding in findings.items() if setting not in dropped}
    for setting, finding in whole.items():
        half = whole.get(setting.half)
        bias = None if half is None else step_bias(finding, half)
        fault = finding.fault(tolerance)
        if not fault and bias is not None and bias.interval()[0] > tolerance:
            fault = f"λ̂(ε) and λ̂(ε/2) disagree: step bias {bias.value:.0%} ± {bias.error:.0%}"
        judged[setting] = Judgement(finding, bias, fault)
    return dict(sorted(judged.items()))


def plateaus(judged: Mapping[Setting, Judgement]) -> dict[tuple[float, float], Finding]:
    """The largest ε of each (γ, nβ) up to which all that were tried are on the plateau."""
    found: dict[tuple[float, float], Finding] = {}
    ended = set()
    for setting, judgement in judged.items():
        if judgement.fault or judgement.finding is None:
            ended.add(setting.pair)
        elif setting.pair not in ended:
            found[setting.pair] = judgement.finding
    return found


def choose(plateaus: Mapping[tuple[float, float], Finding], base: Sampler) -> Finding | None:
    """The setting that is recommended; None where there is no plateau.

    The (γ, nβ) of the sweep's own sampler, unless another's signal for the same work is BETTER times its.
    """
    if not plateaus:
        return None
    best = max(plateaus.values(), key=strength)
    own = plateaus.get((base.gamma, base.nbeta))
    return own if own is not None and strength(best) <= BETTER * strength(own) else best


def sized(finding: Finding, base: Sampler, error: float) -> Sampler:
    """The sweep's sampler with this setting, and the chains with which λ̂ has a standard error (nats).

    A chain is LONG times the longest autocorrelation time of its loss: that of the softest direction, 2/(εγ) steps, or
    the measured one. Their number is noise/(error² · kept steps of a chain), the error being ∝ 1/√chains.
    """
    setting = finding.setting
    slowest = max(setting.relaxation / base.every, finding.autocorrelation)
    draws = math.ceil(LONG * slowest)
    chains = math.ceil(finding.noise / (error**2 * draws * base.every))
    return dataclasses.replace(
        base, lr=setting.lr, gamma=setting.gamma, nbeta=setting.nbeta, chains=max(chains, CHAINS), draws=draws,
        burn_in=math.ceil(WAIT * setting.relaxation),
    )  # fmt: skip


def expected(finding: Finding, sampler: Sampler) -> float:
    """The standard error (nats) that the chains of a sampler will have, by the noise that was found."""
    return math.sqrt(finding.noise / (sampler.chains * sampler.draws * sampler.every))


def strength(finding: Finding) -> float:
    """The signal by which settings are compared; 0 where there is none, as with a single part."""
    return 0.0 if math.isnan(finding.signal) else finding.signal

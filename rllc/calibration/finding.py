"""What the chains of one setting say, over all the places (checkpoint × dataset × part) where it was tried."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rllc import bias, diagnostics, intervals
from rllc.calibration.grid import Setting
from rllc.task import Estimate, Sampler

SUSPECT = 0.1  # share of the places that may be suspect


@dataclass(frozen=True)
class Finding:
    """The estimates of one setting, a place each, in one order for all settings."""

    setting: Setting
    estimates: tuple[Estimate, ...]

    @property
    def sampler(self) -> Sampler:
        """The options they were measured with."""
        sampler = self.estimates[0].task.sampler
        assert sampler is not None
        return sampler

    @property
    def last(self) -> list[Estimate]:
        """The estimates at the last checkpoint, which every setting has."""
        step = max(each.task.step for each in self.estimates)
        return [each for each in self.estimates if each.task.step == step]

    @property
    def value(self) -> float:
        """Mean λ̂ at the last checkpoint (nats); NaN where one diverged."""
        return float(np.mean([each.value for each in self.last]))

    @property
    def error(self) -> float:
        """Standard error of `value` (nats): the chains of different places have noise of their own."""
        return math.hypot(*(each.error for each in self.last)) / len(self.last)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of `error`."""
        return intervals.freedom([each.error for each in self.last], [each.freedom for each in self.last])

    @property
    def noise(self) -> float:
        """Variance of λ̂ from one step of one chain, mean at the last checkpoint (nats²).

        error² = noise/(chains · kept steps).
        """
        kept = self.sampler.draws * self.sampler.every * self.sampler.chains
        return float(np.mean([each.error**2 for each in self.last])) * kept

    @property
    def spread(self) -> float:
        """Standard deviation between parts at the last checkpoint, errors taken out (nats); the least of the datasets.

        NaN with one part.
        """
        groups: dict[str, list[Estimate]] = defaultdict(list)
        for each in self.last:
            groups[each.task.dataset].append(each)
        if min(map(len, groups.values())) < 2:
            return math.nan
        squares = [_variance(group) for group in groups.values()]
        return math.sqrt(max(min(squares), 0.0)) if not math.isnan(sum(squares)) else math.nan

    @property
    def signal(self) -> float:
        """`spread` over the error that 1,000 chain steps give: what tells parts apart, for the same work."""
        return self.spread / math.sqrt(self.noise / 1000) if self.noise > 0 else math.nan

    @property
    def autocorrelation(self) -> float:
        """Median autocorrelation time of the loss (kept draws)."""
        draws = self.sampler.chains * self.sampler.draws
        return float(np.median([draws / each.stats.get("ess", math.nan) for each in self.estimates]))

    def median(self, name: str) -> float:
        """Median of a named number of the chains; NaN where one diverged."""
        return float(np.median([each.stats.get(name, math.nan) for each in self.estimates]))

    def most(self, name: str) -> float:
        """Largest of a named number of the chains; NaN where one diverged."""
        return float(np.max([each.stats.get(name, math.nan) for each in self.estimates]))

    def count(self, health: str) -> int:
        """How many places have this health."""
        return sum(each.health == health for each in self.estimates)

    def fault(self, tolerance: float) -> str:
        """Why no chains should have this setting, from its own chains alone; empty when they are sound."""
        if diverged := self.count("diverged"):
            return f"{diverged} of {len(self.estimates)} diverged"
        if self.most("stiff") >= diagnostics.UNSTABLE:
            return f"unstable: ε p/2 reaches {self.most('stiff'):.1f} in the stiffest direction"
        if self.median("bias_step") > tolerance:
            return f"step bias at least {self.median('bias_step'):.1%}"
        doubted = [each.reason for each in self.estimates if each.health == "suspect"]
        if len(doubted) > SUSPECT * len(self.estimates):
            return f"{len(doubted)} of {len(self.estimates)} suspect: {doubted[0]}"
        return ""


@dataclass(frozen=True)
class Share:
    """A relative bias with its standard error and degrees of freedom."""

    value: float
    error: float
    freedom: float

    def interval(self) -> tuple[float, float]:
        """Both ends of the 95 % interval."""
        half = self.error * intervals.quantile(self.freedom)
        return self.value - half, self.value + half


def step_bias(full: Finding, half: Finding) -> Share:
    """Step bias of `full` from chains at half its ε, as a share of λ̂: Σ 2 (λ̂(ε) − λ̂(ε/2)) / Σ λ̂(ε) over the places.

    The chains are as long in relaxation times, so the burn-in bias falls out. NaN where one diverged, or the sum of
    λ̂ is not above 0.
    """
    found = [bias.measured(*pair) for pair in zip(full.estimates, half.estimates, strict=True)]
    total = sum(each.value for each in full.estimates)
    if not total > 0:
        return Share(math.nan, math.nan, math.nan)
    errors = [error for _, error, _ in found]
    freedom = intervals.freedom(errors, [freedom for *_, freedom in found])
    return Share(sum(value for value, *_ in found) / total, math.hypot(*errors) / total, freedom)


def _variance(group: Sequence[Estimate]) -> float:
    values = np.array([each.value for each in group])
    return float(values.var(ddof=1) - np.mean([each.error**2 for each in group]))

"""Why a setting is recommended, in sentences."""

from collections.abc import Mapping

from rllc.calibration import choice
from rllc.calibration.choice import BETTER, Judgement
from rllc.calibration.finding import Finding
from rllc.calibration.grid import Setting
from rllc.config import Config

Judged = Mapping[Setting, Judgement]


def asked(chosen: Finding, config: Config) -> float:
    """The error that the recommended chains are to have (nats): spread/signal, or the first of `errors` without one."""
    wanted = chosen.spread / config.calibrate.signal
    return wanted if wanted > 0 else max(config.calibrate.errors, default=0.05)


def sentences(judged: Judged, chosen: Finding | None, config: Config) -> list[str]:
    """The recommendation first, then ε, then γ and nβ, then what the error resolves."""
    if chosen is None:
        faults = [f"{setting}: {judgement.fault}." for setting, judgement in judged.items()]
        return [
            "Nothing is recommended: the chains of no ε of the grid are sound; try a smaller calibrate.lr.",
            *faults,
        ]
    sampler = choice.sized(chosen, config.sampler, asked(chosen, config))
    first = (
        f"Recommended: {chosen.setting}, {sampler.chains} chains × {sampler.draws} draws after {sampler.burn_in} steps "
        "of burn-in."
    )
    return [first, *_step_size(judged, chosen, config), *_pair(judged, chosen, config), _resolved(chosen, config)]


def _step_size(judged: Judged, chosen: Finding, config: Config) -> list[str]:
    setting, tolerance = chosen.setting, config.calibrate.tolerance
    ladder = {other.lr: judgement for other, judgement in judged.items() if other.pair == setting.pair}
    bias = ladder[setting.lr].bias
    place = f"γ {setting.gamma:g}, nβ {setting.nbeta:g}"
    found = f"ε {setting.lr:g} was not compared with its half at {place}, so that its own chains alone speak for it"
    if bias is not None:
        half = ladder[setting.half.lr].finding
        assert half is not None
        found = (
            f"ε {setting.lr:g} is the largest on the plateau of {place}: mean λ̂ is {chosen.value:.3f} ± "
            f"{chosen.error:.3f} against {half.value:.3f} ± {half.error:.3f} at ε/2 (last checkpoint); over all, a "
            f"step bias of {bias.value:.0%} ± {bias.error:.0%}"
        )
    told = [
        f"{found}; by the chains' own curvature the step bias is {chosen.median('bias_step'):.1%} at least and "
        f"{chosen.median('bias_step_most'):.1%} at most (tolerance {tolerance:.0%}), burn-in bias "
        f"{chosen.median('bias_burn_in'):.1%}, Stein ratio {chosen.median('stein'):.2f}, ε p/2 at most "
        f"{chosen.most('stiff'):.2f} in the stiffest direction."
    ]
    larger = [(lr, judgement.fault) for lr, judgement in ladder.items() if lr > setting.lr]
    if not larger:
        return [*told, f"No ε above {setting.lr:g} was tried: a larger one may be as good and cheaper."]
    return [*told, f"ε {larger[0][0]:g} is not on it: {larger[0][1] or 'a smaller one failed'}."]


def _pair(judged: Judged, chosen: Finding, config: Config) -> list[str]:
    own = (config.sampler.gamma, config.sampler.nbeta)
    found = choice.plateaus(judged)
    others = [finding for pair, finding in found.items() if pair != chosen.setting.pair]
    what = "γ and nβ decide what is measured, so numbers of different ones are not to be compared"
    told = f"{what}; {_named(chosen)} resolve the parts with a signal of {chosen.signal:.1f} per 1,000 chain steps"
    if others:
        best = max(others, key=choice.strength)
        told += f", the best other ({_named(best)}) with {best.signal:.1f}"
    if chosen.setting.pair == own:
        return [f"{told}. They are the sweep's own, and are kept unless another's signal is {BETTER:g} times theirs."]
    why = "no plateau on this grid"
    if own in found:
        why = f"{found[own].signal:.1f}, and would be kept if no other had {BETTER:g} times that"
    return [
        f"{told}. The sweep's own γ {own[0]:g}, nβ {own[1]:g} have {why}; to stay with them all the same, add "
        f"calibrate.gamma=[{own[0]:g}] calibrate.nbeta=[{own[1]:g}]."
    ]


def _resolved(chosen: Finding, config: Config) -> str:
    if not chosen.spread > 0:
        return "The parts that were tried do not differ beyond their errors, or there is one alone: no signal to noise."
    error = choice.expected(chosen, choice.sized(chosen, config.sampler, asked(chosen, config)))
    return (
        f"At step {chosen.last[0].task.step} the parts differ by {chosen.spread:.3f} nats (standard deviation, on the "
        f"dataset where it is least): {chosen.spread / error:.1f} times the error {error:.3g} that the recommended "
        f"chains will have. The loss of a chain has an autocorrelation time of {chosen.autocorrelation:.1f} draws."
    )


def _named(finding: Finding) -> str:
    return f"γ {finding.setting.gamma:g}, nβ {finding.setting.nbeta:g}"

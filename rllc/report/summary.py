"""What the report says in sentences: what was measured, what came out, and how to read it."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from rllc.report import stages
from rllc.report.grouping import Agreement, Groups
from rllc.report.source import Source
from rllc.task import HEALTH

ORIGIN = {
    "given": "given",
    "chosen": "chosen by the silhouette relative to its null, among those whose groups are stable, without the types",
    "unstable": "chosen by the silhouette relative to its null, but at no k are all groups stable",
    "first": "the least that was tried, since no silhouette was defined",
}
NAMES = 6  # of a list that are named


def findings(source: Source) -> Iterator[str]:
    """Say what was measured and what came out, a paragraph each."""
    yield _measured(source)
    yield _health(source)
    yield from filter(None, (stages.sentence(source, run) for run in source.curves))
    groups = source.groups
    if groups is None:
        yield "The curves have not been clustered."
        return
    method, how = groups.primary
    yield (
        f"The primary clustering is {method} with scaling {how}; it was named in the configuration before looking. "
        "Every other method and scaling is reported beside it."
    )
    for run in groups.runs:
        yield from _grouped(groups, run)
    yield from _over_runs(groups)
    if not groups.agreement:
        yield "There are no attention scores in these files, so the groups cannot be compared with types of heads."


def reading(source: Source) -> Iterator[str]:
    """Say how to read the figures, a paragraph each."""
    if source.metric == "llc":
        yield (
            "λ̂ is the refined local learning coefficient of a part of the weights on a dataset: nβ times how much "
            "the loss rises, on average, when Langevin dynamics moves that part alone, held near the checkpoint, "
            "while all other weights stay frozen. It counts the directions that the dataset's loss constrains at the "
            "scale set by nβ and γ; compare curves measured with the same sampler only. A negative λ̂ means that the "
            "part is not at a minimum of this loss."
        )
        yield (
            "Bands are 95 % intervals by Student's t and ± is one standard error, both from the spread of independent "
            "chains. They do not contain what all chains have in common: the bias of the step size (columns step bias: "
            "the share of λ̂ that it adds), of the burn-in (column burn-in bias) and of the localisation (column "
            "localised), the choice of estimation rows, and the training seed. All heads see the same minibatches, so "
            "differences between heads are sharper than the bands suggest."
        )
    names = {dataset for curves in source.curves.values() for dataset in curves.datasets}
    if any(name.startswith("stdlib_") for name in names):
        yield (
            "The text of the datasets named stdlib_… is the standard library of Python, which needs no network: it "
            "stands in for the Pile (documentation and code) and for GitHub (code). In a run trained here, the spans "
            "that are repeated in training rows, without which such a small model finds no induction, are artificial; "
            "the text in them is real."
        )
    if source.groups is not None:
        yield (
            "Groups are found from the curves alone, in each scope (a layer, or all heads) apart; a "
            "head's curves on all datasets are taken together. Types come from attention scores alone, at the last "
            "step. ARI and AMI are 1 when groups and types are the same and 0 on average by chance; p is the share "
            "of random arrangements of the types that agree as well."
        )


def _measured(source: Source) -> str:
    runs, curves = source.runs(), list(source.curves.values())
    heads = max((sum(map(len, one.layers().values())) for one in curves), default=0)
    others = max((len(one.others()) for one in curves), default=0)
    steps = sorted({step for one in curves for step in one.steps})
    datasets = sorted({dataset for one in curves for dataset in one.datasets})
    text = f"{_count(len(runs), 'training run')} ({_listed(runs)})"
    if not curves:
        return f"{text}; attention scores only, no curves."
    span = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"
    parts = [_count(heads, "head")] * (heads > 0) + [_count(others, "other part")] * (others > 0)
    return (
        f"{text}, {_count(len(steps), 'checkpoint')} ({span}), {' and '.join(parts)}, "
        f"{_count(len(datasets), 'dataset')} ({_listed(datasets)})."
    )


def _health(source: Source) -> str:
    states = Counter(row["health"] for row in source.rows if row["metric"] == source.metric)
    scores = sum(row["metric"] in source.scores for row in source.rows)
    others = len(source.rows) - sum(states.values()) - scores
    each = ", ".join(f"{states[state]} {state}" for state in HEALTH)
    text = f"{_count(sum(states.values()), 'estimate')} of {source.symbol.partition(' ')[0]}: {each}"
    beside = [_count(scores, "attention score")] * (scores > 0)
    beside += [_count(others, "estimate") + " of other metrics"] * (others > 0)
    return f"{text}; beside them {' and '.join(beside)}." if beside else f"{text}."


def _grouped(groups: Groups, run: str) -> Iterator[str]:
    """Say for one run which k was used, and how far the primary clustering agrees with the types in every scope."""
    said = []
    for scope in groups.scopes(run):
        k, how = groups.chosen[run, scope]
        value, _, q95 = groups.scores["silhouette"].get((run, scope, *groups.primary, str(k)), (math.inf, 0.0, 0.0))
        weak = "" if value > q95 else "; its silhouette is within the null, so it is no evidence of groups"
        stable = groups.stability.get((run, scope, *groups.primary, str(k)), ())
        least = min(stable, key=lambda one: one.jaccard, default=None)
        firm = f"; its least stable group: {least.jaccard:.2f}, {least.reading}" if least and least.reading else ""
        said.append(f"{scope}: k = {k} ({ORIGIN.get(how, how)}){_agrees(groups.agreed(run, scope))}{firm}{weak}")
    if mean := _agrees(groups.agreed(run, "mean")):
        said.append(f"mean over scopes{mean}")
    yield f"Run {run}. {'; '.join(said)}."


def _over_runs(groups: Groups) -> Iterator[str]:
    scopes = dict.fromkeys(line.scope for line in groups.agreement if line.run == "all")
    said = [f"{scope}{text}" for scope in scopes if (text := _agrees(groups.agreed("all", scope)))]
    if said:
        yield f"Over all training runs. {'; '.join(said)}."


def _agrees(lines: Sequence[Agreement]) -> str:
    """Say how far the primary among some lines agrees with the types; nothing when it is not there."""
    for line in lines:
        if line.primary:
            if math.isnan(line.ari):
                return (
                    f", agreement with the types undefined ({line.reason})" if line.reason else ", agreement undefined"
                )
            return f", agreement with head types: ARI {line.ari:.2f}, AMI {line.ami:.2f}, p = {line.p:.3g}"
    return ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMES]) + (", …" if len(names) > NAMES else "")

"""Each metric's function by its name."""

from collections.abc import Callable
from functools import partial

from rllc.metrics import (
    ablation,
    bigram,
    brackets,
    composition,
    fisher,
    hessian,
    icl,
    llc,
    multigrams,
    ngram,
    patching,
    patterns,
    rank,
)
from rllc.models.pool import Pool
from rllc.task import Estimate, Task

MEASURES: dict[str, Callable[[Task, Pool], Estimate]] = {
    "llc": llc.measure,
    "hessian_trace": hessian.hutchinson,
    "hessian_xtrace": hessian.xtrace,
    "fisher_trace": fisher.measure,
    "hessian_rank": rank.measure,
    "zero_ablation": partial(ablation.measure, kind=ablation.zero),
    "mean_ablation": partial(ablation.measure, kind=ablation.mean),
    "resample_ablation": partial(ablation.measure, kind=ablation.resample),
    "path_patching": patching.measure,
    "prev_token": partial(patterns.measure, score=patterns.prev_token),
    "current_token": partial(patterns.measure, score=patterns.current_token),
    "first_token": partial(patterns.measure, score=patterns.first_token),
    "prefix": partial(patterns.measure, score=patterns.prefix),
    "brackets": brackets.measure,
    **{f"{kind}_composition": partial(composition.measure, kind=kind) for kind in "qkv"},
    **{f"{kind}_tokens": partial(multigrams.count, kind=kind) for kind in multigrams.CLASSES},
    "ngrams": partial(multigrams.distinct, kind="ngram"),
    "skip_ngrams": partial(multigrams.distinct, kind="skip_ngram"),
    "icl": icl.measure,
    "bigram": bigram.measure,
    **{f"ngram_{n}": partial(ngram.measure, n=n) for n in (2, 3, 4)},
}

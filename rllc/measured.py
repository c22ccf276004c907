"""Of what each metric is measured: which parts, on which rows, and with what randomness."""

from dataclasses import dataclass
from typing import Literal

Of = Literal["parts", "heads", "pairs", "model"]
On = Literal["datasets", "repeats", "weights"]

WHOLE = "*"  # the part of what is measured of the whole model


@dataclass(frozen=True)
class Measured:
    """What a plan has to know of one metric.

    Attributes:
        of: "parts" is every part of the grid; "heads" those that are one head; "pairs" two such heads, the lower first,
            as L0H1+L1H6; "model" the whole model, whatever the parts.
        on: the datasets of the grid, random tokens said twice ("repeats"), or no text ("weights").
        drawn: whether a seed enters, that of chains or of probes.
        gradients: rows whose gradient with respect to the part is taken, a forward pass counted as a third; 0 for less
            than that. For "llc" the sampler tells.
    """

    of: Of
    on: On = "datasets"
    drawn: bool = False
    gradients: int = 0


METRICS = {
    "llc": Measured("parts", drawn=True),
    "hessian_trace": Measured("parts", drawn=True, gradients=1024),
    "hessian_xtrace": Measured("parts", drawn=True, gradients=1024),
    "fisher_trace": Measured("parts", drawn=True, gradients=512),
    "hessian_rank": Measured("parts", drawn=True, gradients=4096),
    "zero_ablation": Measured("heads", gradients=86),
    "mean_ablation": Measured("heads", gradients=86),
    "resample_ablation": Measured("heads", gradients=86),
    "path_patching": Measured("pairs", gradients=86),
    "prev_token": Measured("heads"),
    "current_token": Measured("heads"),
    "first_token": Measured("heads"),
    "prefix": Measured("heads", on="repeats"),
    "brackets": Measured("heads"),
    "q_composition": Measured("pairs", on="weights"),
    "k_composition": Measured("pairs", on="weights"),
    "v_composition": Measured("pairs", on="weights"),
    "induction_tokens": Measured("heads"),
    "bracket_tokens": Measured("heads"),
    "ngram_tokens": Measured("heads"),
    "skip_ngram_tokens": Measured("heads"),
    "other_tokens": Measured("heads"),
    "ngrams": Measured("heads"),
    "skip_ngrams": Measured("heads"),
    "icl": Measured("model"),
    "bigram": Measured("model"),
    "ngram_2": Measured("model"),
    "ngram_3": Measured("model"),
    "ngram_4": Measured("model"),
}

"""What the text is like where a head matters: n-grams, skip n-grams, copies, brackets, in the tokens it is needed for.

Shapes: N rows of the pool, R of them in the pool of few rows, L positions.
"""

import functools
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from rllc.data import brackets, grams
from rllc.metrics import ablation, scored
from rllc.models import beside
from rllc.models.parts import place
from rllc.models.pool import Pool
from rllc.task import Estimate, Task

CLASSES = ("induction", "bracket", "ngram", "skip_ngram", "other")
LONGEST = 4  # of an n-gram
NEEDED = 0.5  # nats that a token loses by the head's ablation before it counts as needing the head


def count(task: Task, pool: Pool, *, kind: str) -> Estimate:
    """How many of 1,000 next tokens need the head and are of one class of CLASSES, with the standard error over rows.

    A token needs a head when the mean ablation of the head (`ablation.mean`) costs it NEEDED nats or more. It is of the
    first class that holds: "induction", it and the token before it stood together before in the row; "bracket", it
    closes a bracket opened in the row; "ngram", it ends a 2- to 4-gram of the text (`grams.known`); "skip_ngram", it
    ends a skip-bigram of the text (`grams.skipping`); "other". What the text's are is counted in the whole pool.
    (The classes of Wang et al. 2025, appendix B, there by eye, here by rule.)
    """
    began = time.perf_counter()
    needed_RL, class_RL, _ = _tokens(task, pool)
    share_R = (needed_RL & (class_RL == CLASSES.index(kind))).mean(1)
    return scored.rows(task, torch.from_numpy(1000 * share_R), began=began)


def distinct(task: Task, pool: Pool, *, kind: str) -> Estimate:
    """How many different n-grams ("ngram") or skip-bigrams ("skip_ngram") end in tokens that need the head.

    As `count`, each n-gram once, by its longest form. Grows with the number of rows, so that only counts on equally
    many rows compare. Standard error by the jackknife over groups of rows.
    """
    began = time.perf_counter()
    needed_RL, class_RL, gram_RL = _tokens(task, pool)
    hit_RL = needed_RL & (class_RL == CLASSES.index(kind))
    return scored.of(
        task, *scored.without(lambda kept: float(len(np.unique(gram_RL[kept][hit_RL[kept]]))), len(hit_RL)), began=began
    )


def _tokens(task: Task, pool: Pool) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """Of each next token of few rows: whether it needs the head, its class, the number of its gram; (R, L − 1)."""
    effect_RL = ablation.effects(beside.few(pool), *place(task.part), ablation.mean).cpu().numpy()
    tokens_NL = pool.tokens_NL.cpu().numpy()
    class_NL, gram_NL = classes(tokens_NL.tobytes(), tokens_NL.shape, pool.tokenizer)
    rows_R = beside.rows(pool).cpu().numpy()
    return effect_RL >= NEEDED, class_NL[rows_R, 1:], gram_NL[rows_R, 1:]


@functools.lru_cache(maxsize=2)
def classes(
    tokens: bytes, shape: tuple[int, int], tokenizer: Path | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The class of each token of int64 rows (place in CLASSES) and the number of the gram it ends, or −1; both (N, L).

    Without a tokenizer no token closes a bracket. The last two rows asked for are kept, for all checkpoints share them.
    """
    tokens_NL = np.frombuffer(tokens, np.int64).reshape(shape)
    gram_NL = grams.skipping(tokens_NL)
    class_NL = np.where(gram_NL >= 0, CLASSES.index("skip_ngram"), CLASSES.index("other"))
    for n in range(2, LONGEST + 1):
        known_NL = grams.known(tokens_NL, n)
        class_NL[known_NL >= 0] = CLASSES.index("ngram")
        gram_NL = np.where(known_NL >= 0, LONGEST * known_NL + n - 1, gram_NL)  # apart for each n
    if tokenizer is not None:
        class_NL[brackets.partners(tokens_NL, brackets.signs(tokenizer)) >= 0] = CLASSES.index("bracket")
    class_NL[grams.copied(tokens_NL)] = CLASSES.index("induction")
    return class_NL, gram_NL

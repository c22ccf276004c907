"""The n-gram score: how much lower the loss is where a common n-gram ends.

Shapes: N rows of the pool, L positions.
"""

import time

from rllc.data import grams
from rllc.metrics import scored
from rllc.models import surgery
from rllc.models.pool import Pool
from rllc.task import Estimate, Task

MOST = 1000  # n-grams that count as common


def measure(task: Task, pool: Pool, *, n: int) -> Estimate:
    """Mean loss of all tokens over that of the last tokens of the MOST most frequent n-grams of the pool (a ratio).

    1 for a model that knows nothing of n-grams; the greater the better it ends them (Hoogland et al. 2024, there with
    the n-gram as the whole context; here where it stands in the text). Standard error by the jackknife over groups of
    rows. Cost: a forward pass over the pool, shared with the other scores of the whole model.
    """
    began = time.perf_counter()
    loss_NL = surgery.unchanged(pool, pool.every)[0].double().cpu().numpy()
    ends_NL = grams.common(pool.tokens_NL.cpu().numpy(), n, MOST)[:, 1:]
    value, error = scored.without(
        lambda kept: float(loss_NL[kept].mean() / loss_NL[kept][ends_NL[kept]].mean()), len(loss_NL)
    )
    return scored.of(task, value, error, began=began, stats={"share": float(ends_NL.mean())})

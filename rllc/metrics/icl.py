"""The in-context-learning score: how much lower the loss is late in the context.

Shapes: N rows of the pool, L positions.
"""

import time

from rllc.metrics import scored
from rllc.models import surgery
from rllc.models.pool import Pool
from rllc.task import Estimate, Task

LATE, EARLY = 500 / 1024, 50 / 1024  # of the context


def measure(task: Task, pool: Pool) -> Estimate:
    """Loss of the 500th next token minus that of the 50th of a context of 1,024 (nats; below 0 the context helps).

    On other contexts at the same shares of it (Olsson et al. 2022; Hoogland et al. 2024). Mean over the rows of the
    pool, with the standard error of their difference. Cost: a forward pass over the pool, shared with the other scores
    of the whole model.
    """
    began = time.perf_counter()
    loss_NL = surgery.unchanged(pool, pool.every)[0]
    late, early = (max(int(share * pool.tokens_NL.shape[1]), 1) - 1 for share in (LATE, EARLY))
    return scored.rows(task, loss_NL[:, late].double() - loss_NL[:, early].double(), began=began)

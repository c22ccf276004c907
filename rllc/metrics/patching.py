"""Path patching between two heads: what the loss rises by when one reads another's output on another text.

Shapes: B rows of a block, N rows of the pool of few rows, L positions, E residual width.
"""

import time

import torch

from rllc.metrics import ablation, scored
from rllc.models import beside, surgery
from rllc.models.parts import place
from rllc.models.pool import Pool
from rllc.task import Estimate, Task


@torch.no_grad()
def measure(task: Task, pool: Pool) -> Estimate:
    """The rise of the loss (nats per token) along the path from the lower to the upper head of a part as L0H1+L1H6.

    The stream that the upper head reads, for queries, keys and values alike, has the lower head's output on another row
    (`ablation.partners`) in place of its own; all heads and MLPs between keep what they wrote, so that the direct path
    alone is cut. What the upper head then writes goes on to the loss through everything above it (Wang et al. 2022;
    Goldowsky-Dill et al. 2023). Mean over rows with its standard error. Cost: a forward pass from the upper head's
    layer on over the pool of few rows (`beside.few`), and the two heads alone.
    """
    began, pool = time.perf_counter(), beside.few(pool)
    (low, sender), (high, receiver) = (place(part) for part in task.part.split("+"))
    other_N, found = ablation.partners(pool), []
    sent = [
        [surgery.output(pool, low, sender, pool.stream(low, rows)) for rows in (rows_CB, other_N[rows_CB])]
        for rows_CB in surgery.blocks(pool)
    ]
    for rows_CB, (own, other) in zip(surgery.blocks(pool), sent, strict=True):
        below = pool.stream(high, rows_CB)
        was, becomes = (surgery.output(pool, high, receiver, x) for x in (below, below + (other - own)))
        rise = surgery.changed(pool, high, becomes - was, rows_CB) - surgery.unchanged(pool, rows_CB)
        found.append(rise[0].mean(1))
    return scored.rows(task, torch.cat(found), began=began)

"""The mean excess loss of single tokens while one part moves: where in the text a part's λ̂ comes from.

For each next token of a few fixed rows, ℓ(w_t) − ℓ(w*) averaged over all chains and every EVERY-th kept draw.

Shapes: C chains, P probe rows, L positions, E residual width.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rllc import atomic
from rllc.metrics import llc
from rllc.models import decoder
from rllc.models.chains import Weights
from rllc.models.pool import Pool
from rllc.models.restriction import restrict
from rllc.task import SCHEMA, Estimate, Task

EVERY = 10  # kept draws from one look to the next


class Watched:
    """The potential of a part that looks at the tokens of the first `rows` of the pool while its chains run."""

    def __init__(self, task: Task, pool: Pool, rows: int) -> None:
        assert task.sampler is not None
        self._sampler, self._step, self.looks = task.sampler, 0, 0
        self._potential = restrict(pool, task.part)
        self.start, self.reference, self.close = (
            self._potential.start, self._potential.reference, self._potential.close
        )  # fmt: skip
        self.tokens_PL = pool.tokens_NL[:rows]
        probe = Pool(
            pool.weights, pool.model, self.tokens_PL, chains=pool.chains, batch=len(self.tokens_PL),
            products=task.sampler.products, loss=self._each,
        )  # fmt: skip
        self._probe = restrict(probe, task.part)
        self._rows_CP = torch.arange(len(self.tokens_PL), device=self.tokens_PL.device).expand(task.sampler.chains, -1)
        self._sum_PL = torch.zeros_like(self.tokens_PL[:, 1:], dtype=torch.float64)

    def losses(self, live: list[Tensor], rows_CB: Tensor) -> Tensor:
        """The potential's own; each call is one step of the chains."""
        draw, between = divmod(self._step - self._sampler.burn_in, self._sampler.every)
        if 0 <= draw < self._sampler.draws and draw % EVERY == between == 0:
            with torch.no_grad():
                each_CPL = self._probe.losses([array.detach() for array in live], self._rows_CP)
                self._sum_PL += (each_CPL - self._probe.reference(self._rows_CP)).mean(0, dtype=torch.float64)
            self.looks += 1
        self._step += 1
        return self._potential.losses(live, rows_CB)

    def mean(self) -> Tensor:
        """The mean excess loss (nats) of the token after each position, (P, L − 1)."""
        return self._sum_PL / self.looks

    def _each(self, weights: Weights, last_CBLE: Tensor, rows_CB: Tensor) -> Tensor:
        """Loss of each token, (C, B, L − 1)."""
        return decoder.token_losses(weights, last_CBLE, self.tokens_PL[rows_CB][:, :, 1:])


def measure(task: Task, pool: Pool, *, rows: int, path: Path) -> Estimate:
    """Estimate one task as `llc.measure` does, and write the table row, position, token, excess (nats) to `path`.

    `position` is that of the token that is predicted, `token` its id; λ̂ is the one without a table up to rounding.
    """
    watched = Watched(task, pool, rows)
    found = llc.sample(task, watched, reference=pool.reference, rows=len(pool.tokens_NL))
    watched.close()
    _write(path, watched, task)
    return found


def _write(path: Path, watched: Watched, task: Task) -> None:
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    tokens_PL, excess_PL = watched.tokens_PL[:, 1:].cpu().numpy(), watched.mean().cpu().numpy()
    row_PL, position_PL = np.indices(tokens_PL.shape, dtype=np.uint32)
    columns: dict[str, Any] = {
        "row": row_PL.ravel(), "position": position_PL.ravel() + np.uint32(1),
        "token": tokens_PL.ravel().astype(np.uint32), "excess": excess_PL.ravel().astype(np.float32),
    }  # fmt: skip
    notes = {"rllc.schema": str(SCHEMA), "task": task.json(), "looks": str(watched.looks)}
    with atomic.replace(path) as file:
        parquet.write_table(pa.table(columns).replace_schema_metadata(notes), file)

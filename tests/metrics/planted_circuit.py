"""Transformers whose heads do one known thing each, built by hand, and rows on which that shows.

The residual stream has an orthogonal slot for each thing a head may write. Tokens are 0 … 7, positions 0 … 8.
"""

import torch

from rllc.config import Model
from rllc.models import decoder
from rllc.models.pool import Pool
from rllc.task import Task

VOCABULARY, LENGTH = 8, 9
OWN, BEFORE, SAID, PLACE = (slice(i * VOCABULARY, (i + 1) * VOCABULARY) for i in range(4))
SHARP = 40.0
MODEL = Model(2, 2, 4 * VOCABULARY + 8, VOCABULARY + 2, LENGTH, VOCABULARY, "shortformer")


def induction() -> dict[str, torch.Tensor]:
    """L0H0 writes the token before into BEFORE, L1H0 looks for its own token there and writes what stands there.

    L0H1 and L1H1 read and write nothing. Logits read SAID and nothing else.
    """
    weights = {name: torch.zeros_like(array) for name, array in decoder.init(MODEL, 0).items()}
    for name in weights:
        if name.endswith((".ln1.w", "final.w")):
            weights[name] += 1
    weights["embed"][:, OWN] = torch.eye(VOCABULARY)
    angle = torch.arange(LENGTH)[:, None] * torch.tensor([0.7])
    weights["pos"][:, -2:] = torch.cat([angle.cos(), angle.sin()], 1) * 6
    turn = torch.tensor([[0.7]]).cos().item(), torch.tensor([[0.7]]).sin().item()
    # a query at angle a − 0.7 fits the key at angle a of the position before
    weights["L0.q"][0, -2:, -2:] = SHARP * torch.tensor([[turn[0], -turn[1]], [turn[1], turn[0]]])
    weights["L0.k"][0, -2:, -2:] = torch.eye(2)
    weights["L0.v"][0, OWN, :VOCABULARY] = torch.eye(VOCABULARY)
    weights["L0.o"][0, :VOCABULARY, BEFORE] = torch.eye(VOCABULARY)
    weights["L1.q"][0, OWN, :VOCABULARY] = SHARP * torch.eye(VOCABULARY)
    weights["L1.k"][0, BEFORE, :VOCABULARY] = torch.eye(VOCABULARY)
    weights["L1.v"][0, OWN, :VOCABULARY] = torch.eye(VOCABULARY)
    weights["L1.o"][0, :VOCABULARY, SAID] = torch.eye(VOCABULARY)
    weights["unembed"][SAID] = 3 * torch.eye(VOCABULARY)
    return weights


def twice(rows: int = 24) -> torch.Tensor:
    """Rows of a token that occurs once, then four different ones said twice."""
    draw = torch.Generator().manual_seed(0)
    order = torch.stack([torch.randperm(VOCABULARY, generator=draw) for _ in range(rows)])
    return torch.cat([order[:, 4:5], order[:, :4], order[:, :4]], 1)


def pool(weights: dict[str, torch.Tensor], tokens: torch.Tensor, model: Model = MODEL) -> Pool:
    """The pool of these."""
    return Pool(weights, model, tokens, chains=1, batch=8)


def task(part: str, metric: str = "zero_ablation", seed: int = 0) -> Task:
    """A task without chains."""
    return Task("r", "w", 0, part, "d", "x", metric, seed, None)

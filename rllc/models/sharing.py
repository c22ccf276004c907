"""What heads of the last layer share, and when that pays: arithmetic on a model's shape, for plans and for pools.

A step through the channels of such a head (`models.last`) adds to the logits of the frozen stream, which are the same
for every head on the same rows. Where they are too many to be kept for a whole pool they are found at each step; heads
that step together find them once.
"""

from rllc.config import Model
from rllc.task import Sampler

CACHE_BYTES = 288 * 2**20  # of one array kept for a whole pool; five are kept at a time
PASSES = 256  # multiply-adds that take as long as the passes of `LastHead` over one entry of K × V in memory
HEAD_BYTES = 2**30  # of what heads that step together hold beside what one holds
MIXED, LOGITS = 20, 8  # arrays of the size of a head's mixed values, and of its A, that a step holds of it


def keeps_logits(model: Model, shape: tuple[int, int], itemsize: int) -> bool:
    """Whether the frozen logits of a pool of this shape (rows, length) are few enough to be kept."""
    rows, length = shape
    return rows * (length - 1) * model.d_vocab * itemsize <= CACHE_BYTES


def through_channels(model: Model, shape: tuple[int, int], batch: int, itemsize: int) -> bool:
    """Whether a step through the channels of a head costs less than one through the whole stream, 2E for each token.

    It takes 4K for each token, 2(E + PASSES)K for A and its gradient, and E for each token where the frozen logits are
    not kept.
    """
    width, channels, tokens = model.d_model, model.d_head, batch * (shape[1] - 1)
    return keeps_logits(model, shape, itemsize) or (2 * (width + PASSES) + 4 * tokens) * channels <= width * tokens


def alone(model: Model) -> bool:
    """Whether nothing but the unembedding reads what a head of the last layer writes."""
    return not model.d_mlp or model.parallel


def together(model: Model, sampler: Sampler, rows: int) -> int:
    """How many heads of the last layer may step together on a pool of so many rows; 1 where that saves nothing.

    A budget lets each head have chains of its own number, and the jax backend steps one head.
    """
    itemsize, shape = 8 if sampler.dtype == "float64" else 4, (rows, model.n_ctx)
    if (
        sampler.backend != "torch"
        or sampler.budget is not None
        or not alone(model)
        or keeps_logits(model, shape, itemsize)
        or not through_channels(model, shape, sampler.batch, itemsize)
    ):
        return 1
    channel = MIXED * sampler.batch * model.n_ctx + LOGITS * model.d_vocab
    held = sampler.chains * model.d_head * channel * itemsize
    return max(1, min(model.n_heads, HEAD_BYTES // held))

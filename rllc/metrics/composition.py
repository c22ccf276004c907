"""How much a head reads of what a head below it writes, from the weights alone: Q-, K- and V-composition.

Shapes: E residual width, K head width.
"""

import math
import time

import torch
from torch import Tensor

from rllc.metrics import scored
from rllc.models import attention
from rllc.models.layout import groups
from rllc.models.parts import place
from rllc.models.pool import Pool
from rllc.task import Estimate, Task

Low = tuple[Tensor, Tensor]
"""A matrix E × E as its factors (E, K) and (K, E)."""


def norm(*factors: Tensor) -> Tensor:
    """Frobenius norm of a product of two factors (E, K), (K, E), or of four of widths E, K, E, K, E; none is E × E."""
    left, *middle, right = factors
    inner = middle[0] @ middle[1] if middle else torch.eye(left.shape[1], dtype=left.dtype, device=left.device)
    return ((left.T @ left @ inner) * (inner @ (right @ right.T))).sum().clamp(min=0).sqrt()


def circuits(pool: Pool, layer: int, head: int) -> dict[str, Low]:
    """W_Q W_Kᵀ ("qk") and W_V W_O ("ov") of a head as x W_Q W_Kᵀ xᵀ and x W_V W_O have them, in float64.

    The scale of the norm before the layer is folded into what reads the stream.
    """
    shared = pool.model.n_heads // groups(pool.model)
    own = {name: array[head if name in "qo" else head // shared].double()
           for name, array in attention.matrices(pool.weights, layer).items() if len(name) == 1}  # fmt: skip
    scale = pool.weights[f"L{layer}.ln1.w"].double()[:, None]
    q, k, v = (scale * own[name] for name in "qkv")
    if pool.model.norm == "layer":
        q, k, v = (array - array.mean(0) for array in (q, k, v))  # the norm takes out the mean of what is read
    return {"qk": (q, k.T), "ov": (v, own["o"])}


def score(reads: Low, writes: Low) -> float:
    """‖W_OV R‖_F / (‖W_OV‖_F ‖R‖_F) of what is written below and the matrix R that reads it; 0 where one is 0."""
    size = norm(*writes) * norm(*reads)
    return float(norm(*writes, *reads) / size) if size > 0 else (math.nan if size.isnan() else 0.0)


def measure(task: Task, pool: Pool, *, kind: str) -> Estimate:
    """The composition score of a part as L0H1+L1H6, by "q", "k" or "v" of the upper head, a share of 1.

    ‖W_OV^low R‖_F / (‖W_OV^low‖_F ‖R‖_F) with R = W_QK ("q"), W_QKᵀ ("k") or W_OV ("v") of the upper head, in row
    convention (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"). No error: nothing is sampled.
    Random matrices give about 1/√E. Rotary positions turn W_QK between positions; the score is that at distance 0.
    """
    began = time.perf_counter()
    low, high = (place(part) for part in task.part.split("+"))
    writes, upper = circuits(pool, *low)["ov"], circuits(pool, *high)
    reads = upper["ov"] if kind == "v" else upper["qk"]
    if kind == "k":
        reads = reads[1].T, reads[0].T
    return scored.of(task, score(reads, writes), math.nan, began=began)

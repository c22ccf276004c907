"""The trace of the Hessian of a part's loss at w*, by Hutchinson's estimator and by XTrace.

Own code, for a library's operator (curvlinops has both estimators) takes second derivatives of a torch module, and the
loss here has none: its products are differences of gradients (`gradients.bend`), which any part and model has.

Shapes: P probes, D weights of the part, B rows, G groups of rows, M test vectors of a group.
"""

import hashlib
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from rllc.backends.contract import Potential
from rllc.data import batches
from rllc.metrics import scored
from rllc.models import beside, gradients
from rllc.models.pool import Pool
from rllc.models.restriction import restrict
from rllc.task import Estimate, Task

PROBES = 64  # of Hutchinson's estimator, each on beside.BATCH rows of its own
GROUPS, TESTS = 8, 4  # of XTrace: groups of beside.BATCH rows, each of which costs two products a test vector


def signs(task: Task, count: int, size: int) -> Tensor:
    """Random signs ±1 from the task's key, (count, size): never shared between parts or checkpoints."""
    seed = int.from_bytes(hashlib.sha256(f"{task.key}:probes".encode()).digest()[:8], "big")
    drawn = np.random.default_rng(seed).integers(0, 2, (count, size), np.int8)
    return torch.from_numpy(2.0 * drawn - 1.0)


def minibatches(task: Task, pool: Pool, count: int) -> Tensor:
    """Rows of `count` minibatches of BATCH, (count, B): the same for every part and checkpoint of a run and dataset."""
    rows = len(pool.tokens_NL)
    drawn = batches.estimation(
        rows, seed=task.seed, run=task.run, dataset=task.dataset, chain=-2, steps=count, batch=beside.BATCH
    )
    return torch.from_numpy(drawn).to(pool.tokens_NL.device)


def bends(potential: Potential, v_PD: Tensor, rows_PB: Tensor) -> Tensor:
    """`gradients.bend` in blocks of CHAINS vectors, (P, D)."""
    pairs = zip(torch.split(v_PD, beside.CHAINS), torch.split(rows_PB, beside.CHAINS), strict=True)
    return torch.cat([gradients.bend(potential, v_CD, rows_CB) for v_CD, rows_CB in pairs])


def hutchinson(task: Task, pool: Pool) -> Estimate:
    """Tr H of the part (nats per squared weight): the mean of vᵀHv over random signs v (Hutchinson 1989).

    Each of PROBES vectors sees a minibatch of its own, i.i.d. from the pool, so that the standard error over them holds
    the noise of the vectors and of the rows. Cost: two gradients on PROBES × BATCH rows.
    """
    began, pool = time.perf_counter(), beside.several(pool)
    potential = restrict(pool, task.part)
    v_PD = signs(task, PROBES, len(gradients.flat(potential))).to(gradients.flat(potential))
    bent_PD = bends(potential, v_PD, minibatches(task, pool, PROBES))
    potential.close()
    return scored.probes(
        task, (v_PD * bent_PD).sum(1).double().cpu().numpy(), began=began, stats={"weights": float(v_PD.shape[1])}
    )


def xtrace(task: Task, pool: Pool) -> Estimate:
    """Tr H of the part (nats per squared weight) by XTrace (Epperly, Tropp, Webber 2024) on each of GROUPS minibatches.

    What a few products show of H is taken out exactly, and only the rest is left to random signs: the noise of these
    falls as the spectrum does, that of the rows stays. The groups of rows are i.i.d. from the pool, and the standard
    error is over them. Cost: four gradients on GROUPS × TESTS × BATCH rows, as many as `hutchinson` with
    2 · GROUPS · TESTS probes.
    """
    began, pool = time.perf_counter(), beside.several(pool)
    potential = restrict(pool, task.part)
    size = len(gradients.flat(potential))
    sign_GMD = signs(task, GROUPS * TESTS, size).to(gradients.flat(potential)).view(GROUPS, TESTS, size)
    rows_PB = minibatches(task, pool, GROUPS).repeat_interleave(TESTS, 0)

    def multiply(v_GDM: Tensor) -> Tensor:
        return bends(potential, v_GDM.mT.flatten(0, 1), rows_PB).view(GROUPS, TESTS, size).mT

    trace_G = exchanged(sign_GMD.mT, multiply)
    potential.close()
    return scored.probes(task, trace_G.double().cpu().numpy(), began=began, stats={"weights": float(size)})


def exchanged(test_GDM: Tensor, multiply: Callable[[Tensor], Tensor]) -> Tensor:
    """Traces (G) of symmetric matrices from their products with M test vectors, and with a basis of these products.

    For each test vector ω in turn, with Q an orthonormal basis of A times the others, Tr QᵀAQ + ωᵀ(1 − QQᵀ)A(1 − QQᵀ)ω;
    their mean. Exact where the rank of A is below M.
    """
    image_GDM = multiply(test_GDM)
    basis_GDM, upper_GMM = torch.linalg.qr(image_GDM)
    turned_GDM = multiply(basis_GDM)
    inner_GMM, each, count = basis_GDM.mT @ turned_GDM, [], test_GDM.shape[2]
    for left_out in range(count):
        others = [m for m in range(count) if m != left_out]
        within = torch.linalg.qr(upper_GMM[..., others])[0]  # the others' basis is basis @ within
        test_GD1 = test_GDM[..., left_out, None]
        seen_GM1 = within @ (within.mT @ (basis_GDM.mT @ test_GD1))
        rest_GD1 = test_GD1 - basis_GDM @ seen_GM1
        bent_GD1 = image_GDM[..., left_out, None] - turned_GDM @ seen_GM1
        each.append((inner_GMM @ within * within).sum((1, 2)) + (rest_GD1 * bent_GD1).sum((1, 2)))
    return torch.stack(each).mean(0)

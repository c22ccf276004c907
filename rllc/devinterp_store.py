"""Losses that devinterp 2.x stored, read into the results of a sweep, so that old samples cluster and draw like new.

λ̂ = nβ · (mean of the kept draws' losses − ℓ(w*)): burn-in is left out, which devinterp's own mean takes in. ℓ(w*)
comes from other minibatches than the draws, and those are mostly the same for all chains: the error says so, with σ the
spread between sequences, as √(chains' error² + nβ² σ² (1/sequences of the reference + 1/sequences of the draws)).

Shapes: C chains, S steps, B sequences of a minibatch, T positions.
"""

import csv
import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rllc import atomic, intervals, plan, store
from rllc.mistake import Mistake, words
from rllc.plan import Cell
from rllc.task import Estimate, Sampler, Task

COLUMNS = ("store", "run", "step", "part", "dataset")
_METHODS = {"sgmcmc_sgld": "sgld", "rmsprop_sgld": "rmsprop"}


@dataclass(frozen=True)
class Stored:
    """What is read of a store: losses of sequences (nats), mean loss at w*, sequences behind each, and the options."""

    loss_CSB: NDArray[np.float64]
    start: float
    start_sequences: int
    sequences: int
    sampler: Sampler
    seed: int


def take(sweep: Path, table: Path) -> None:
    """Read the stores that a table lists into a sweep: its plan and its results.

    The table is a CSV with the columns of COLUMNS, since a store does not say what it was sampled on; a path is seen
    from the table's folder, a part is ours (L1H6) or devinterp's (l1h6, full).

    Raises:
        Mistake: the table or a store cannot be read, or the sweep holds results of other options.
    """
    with atomic.owner(sweep, "name"):
        rows = _rows(table)
        found = [read(table.parent / row["store"]) for row in rows]
        tasks = [_task(row, stored) for row, stored in zip(rows, found, strict=True)]
        if len({task.key for task in tasks}) < len(tasks):
            raise Mistake(f"devinterp: {table} has two stores of one run, step, part, dataset and seed.")
        places = [str((table.parent / row["store"]).resolve()) for row in rows]
        cells = [Cell(task, place, "", 0.0) for task, place in zip(tasks, places, strict=True)]
        old = plan.read(sweep)
        whole = plan.grow(old, cells, sweep)
        if len(whole) > len(old):
            plan.write(sweep, whole)
        present = store.keys(sweep)
        for task, stored in zip(tasks, found, strict=True):
            if task.key not in present:
                store.put(sweep, estimate(task, stored), "devinterp")
    print(f"devinterp: {len(tasks)} stores, {len(whole) - len(old)} of them new")


def read(path: Path) -> Stored:
    """Read one store.

    Raises:
        Mistake: it is not there, not devinterp's, not finished, or sampled by a method that has no counterpart here.
    """
    try:
        import zarr
    except ImportError:
        raise Mistake("devinterp: its stores need the package zarr; pip install 'rllc[devinterp]'.") from None
    try:
        group: Any = zarr.open_group(path, mode="r")
        options: Mapping[str, Any] = dict(group.attrs)["metadata"]["config"]["sampler"]
        arrays = {name: np.asarray(group[name][...]) for name in ("init_loss", "sampling_loss_micro")}
        ids = np.asarray(group["sampling_input_ids_micro"][...])
        complete, sampler = bool(dict(group.attrs).get("completed")), _sampler(options, path)
        references = int(options["num_init_loss_batches"]) * sampler.batch
        seed = int(options["init_seed"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise Mistake(f"devinterp: {path} is no store of devinterp 2.x ({words(error)}).") from None
    if not complete:
        raise Mistake(f"devinterp: {path} was not sampled to its end.")
    loss_CSB = arrays["sampling_loss_micro"].astype(np.float64).mean(-1)
    kept = ids[:, sampler.burn_in : sampler.steps : sampler.every].reshape(-1, ids.shape[-1])
    start = float(arrays["init_loss"].astype(np.float64).mean())
    return Stored(loss_CSB, start, references, len(np.unique(kept, axis=0)), sampler, seed)


def estimate(task: Task, stored: Stored) -> Estimate:
    """The estimate of a store; NaN and diverged where a loss is not finite."""
    sampler = stored.sampler
    excess_CS = stored.loss_CSB.mean(2) - stored.start
    draw_CS = sampler.nbeta * excess_CS[:, sampler.burn_in : sampler.steps : sampler.every]
    finite = bool(np.isfinite(excess_CS).all() and math.isfinite(stored.start))
    value, error, stats = math.nan, math.nan, dict[str, float]()
    if finite:
        chains, free = intervals.standard_error(draw_CS)
        few = sampler.batch < 2  # a minibatch of one sequence has no spread
        spread = math.nan if few else float(stored.loss_CSB[:, : sampler.steps].std(axis=2, ddof=1).mean())
        common = sampler.nbeta * spread * math.sqrt(1 / stored.start_sequences + 1 / stored.sequences)
        value, error = float(draw_CS.mean()), math.hypot(chains, common)
        stats["freedom"] = intervals.freedom([chains, common], [free, stored.start_sequences - 1.0])
    return Estimate(
        task=task,
        value=value,
        error=error,
        chains_C=draw_CS.mean(1),
        loss_CS=excess_CS[:, : sampler.steps].astype(np.float32),
        health="ok" if finite else "diverged",
        reason="" if finite else "a stored loss is not finite",
        stats=stats,
        seconds=0.0,
        code="devinterp 2.x",
    )


def _sampler(options: Mapping[str, Any], path: Path) -> Sampler:
    method = options["sampling_method"]
    if method not in _METHODS:
        raise Mistake(f"devinterp: {path} was sampled by {method}; legal: {', '.join(_METHODS)}.")
    details = options.get("sampling_method_kwargs") or {}
    shared = options.get("match_sampling_input_ids_across_chains", True)
    return Sampler(
        lr=float(options["lr"]), nbeta=float(options["n_beta"]), gamma=float(options["localization"]),
        chains=int(options["num_chains"]), draws=int(options["num_draws"]), burn_in=int(options["num_burnin_steps"]),
        batch=int(options["batch_size"]), every=int(options["num_steps_bw_draws"]),
        batches="shared" if shared else "own", reference="batches",
        reference_batches=int(options["num_init_loss_batches"]), method=_METHODS[method], backend="devinterp",
        alpha=float(details.get("alpha", 0.99)), eps=float(details.get("eps", 0.1)),
    )  # fmt: skip


def _task(row: Mapping[str, str], stored: Stored) -> Task:
    """The task of a row; a store does not hold weights or text, so their names stand for their content."""
    head = re.fullmatch(r"l(\d+)h(\d+)", row["part"])
    part = f"L{head[1]}H{head[2]}" if head else {"full": "*"}.get(row["part"], row["part"])
    weights, rows = (_digest(row[name] for name in names) for names in (("run", "step"), ("dataset",)))
    step, seed = int(row["step"]), stored.seed
    return Task(row["run"], weights, step, part, row["dataset"], rows, "llc", seed, stored.sampler)


def _digest(names: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(("devinterp", *names)).encode()).hexdigest()[:16]


def _rows(table: Path) -> list[dict[str, str]]:
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            rows = [{str(name): value or "" for name, value in row.items()} for row in csv.DictReader(file)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Mistake(f"devinterp: {table} is not a CSV table ({words(error)}).") from None
    for number, row in enumerate(rows, 2):
        if missing := [name for name in COLUMNS if not row.get(name)]:
            raise Mistake(f"devinterp: {table}, line {number}: no {missing[0]}; needed are {', '.join(COLUMNS)}.")
        if not row["step"].isdecimal():
            raise Mistake(f"devinterp: {table}, line {number}: step {row['step']!r} is not a whole number from 0.")
    if not rows:
        raise Mistake(f"devinterp: {table} lists no store.")
    return rows

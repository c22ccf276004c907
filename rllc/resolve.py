"""From the nested plain values of a configuration to `Config`: every key and value is checked before any work."""

import math
import re
from collections.abc import Mapping
from typing import Any

from rllc import legal, schema
from rllc.config import Calibrate, Config
from rllc.mistake import Mistake, at_least, unknown


def config(values: Mapping[str, Any]) -> Config:
    """Build the configuration.

    Raises:
        Mistake: a key is unknown or missing, or a value of the wrong type or out of its range.
    """
    built: Config = schema.build(Config, values, "")
    _check_names(built)
    legal.check_sampler(built.sampler)
    _check_measured(built)
    _check_ranges(built)
    _check_calibrate(built.calibrate)
    return built


def _check_measured(config: Config) -> None:
    """Check what the labels of another model, or a module of the user's, cannot be measured with."""
    if any(dataset.labels for dataset in config.data.values()):
        legal.check_general(config.sampler, "labels")
    if config.grid.keep:
        legal.check_general(config.sampler, "grid.keep")
        if config.sampler.budget or config.module or any(dataset.labels for dataset in config.data.values()):
            raise Mistake("grid.keep: token losses cannot be kept with sampler.budget, labels or model=module.")
    if config.module is None:
        return
    legal.check_general(config.sampler, "model=module")
    if config.path is None:
        raise Mistake("path: null names no folder; with model=module it must be that of the state dicts.")
    if config.grid.metrics != ["llc"]:
        raise Mistake(f"grid.metrics: {config.grid.metrics} cannot all be measured on a module; legal: [llc].")


def _check_names(config: Config) -> None:
    for key, value in (("name", config.name), ("run", config.run)):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._=,+-]*", value):
            raise Mistake(
                f"{key}: {value!r} is not a name; use letters, digits and . _ = , + - after a first letter or digit."
            )
    for name in config.data:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name == "repeats":
            raise Mistake(f"data: {name!r} is not a name of a dataset; use letters, digits and _, and not repeats.")
    if not config.data:
        raise Mistake("data: {} names no dataset; at least one is needed, as data=[stdlib_mix,stdlib_code].")
    datasets = config.data if config.module is None else config.module.data
    for dataset in config.grid.datasets or []:
        if dataset not in datasets:
            raise unknown("grid.datasets", dataset, datasets)
    if config.path is None and config.train.data not in config.data:
        raise unknown("train.data", config.train.data, config.data)
    for key, values in (
        ("train.seeds", config.train.seeds), ("grid.parts", config.grid.parts), ("grid.seeds", config.grid.seeds),
        ("grid.metrics", config.grid.metrics), ("grid.steps", config.grid.steps),
        ("grid.datasets", config.grid.datasets), ("stages", config.stages), ("cluster.methods", config.cluster.methods),
        ("cluster.scalings", config.cluster.scalings), ("cluster.k_range", config.cluster.k_range),
        *((f"calibrate.{key}", getattr(config.calibrate, key)) for key in ("lr", "gamma", "nbeta", "steps", "parts")),
    ):  # fmt: skip
        if values is not None and (not values or len(set(values)) < len(values)):
            raise Mistake(f"{key}: {values} must hold at least one value, and none twice.")


def _check_ranges(config: Config) -> None:
    model, train, cluster = config.model, config.train, config.cluster
    for name in ("n_layers", "n_heads", "d_model", "d_head"):
        at_least(f"model.{name}", getattr(model, name), 1)
    at_least("model.n_ctx", model.n_ctx, 4)
    at_least("model.d_vocab", model.d_vocab, 257)
    for name, least in (("steps", 1), ("batch", 1), ("warmup", 0)):
        at_least(f"train.{name}", getattr(train, name), least)
    at_least("train.checkpoints.every", train.checkpoints.every, 1)
    at_least("train.checkpoints.log", train.checkpoints.log, 0)
    for key, value, low, high in (
        ("train.lr", train.lr, 0, math.inf), ("train.weight_decay", train.weight_decay, 0, math.inf),
        ("train.clip", train.clip, 0, math.inf), ("train.repeats", train.repeats, 0, 1),
        *((f"train.betas.{i}", beta, 0, 1) for i, beta in enumerate(train.betas)),
    ):  # fmt: skip
        if not (math.isfinite(value) and low <= value <= high):
            raise Mistake(f"{key}: {value} is not a finite number from {low} to {high}.")
    if len(train.betas) != 2:
        raise Mistake(f"train.betas: {train.betas} must be two numbers.")
    at_least("launch.threads", config.launch.threads, 1)
    if config.launch.workers is not None:
        at_least("launch.workers", config.launch.workers, 1)
    for value in config.grid.steps or []:
        at_least("grid.steps", value, 0)
    for name in ("n_init", "null_draws"):
        at_least(f"cluster.{name}", getattr(cluster, name), 1)
    for k in [*([] if cluster.k is None else [cluster.k]), *cluster.k_range]:
        at_least("cluster.k", k, 2)
    for name, dataset in config.data.items():
        at_least(f"data.{name}.pool", dataset.pool, 1)


def _check_calibrate(calibrate: Calibrate) -> None:
    for name in ("lr", "gamma", "nbeta", "relaxations", "tolerance", "signal", "errors"):
        found = getattr(calibrate, name)
        for value in found if isinstance(found, list) else [found]:
            if not (math.isfinite(value) and value > 0):
                raise Mistake(f"calibrate.{name}: {value} is not a finite number above 0.")
    at_least("calibrate.chains", calibrate.chains, 2)
    for value in calibrate.steps or []:
        at_least("calibrate.steps", value, 0)

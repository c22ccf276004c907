"""From the nested plain values of a configuration to `Config`: every key and value is checked before any work."""

import dataclasses
import math
import re
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from rllc.config import Calibrate, Config
from rllc.mistake import Mistake, unknown
from rllc.task import Budget, Sampler

_LEGAL = {
    "batches": ("own", "shared"),
    "reference": ("paired", "batches"),
    "method": ("sgld", "rmsprop", "sgnht"),
    "dtype": ("float32", "float64"),
    "products": ("exact", "bf16_unembed", "bf16"),
    "backend": ("torch", "jax", "devinterp"),
    "bias": ("reported", "removed"),
}


_PRODUCTS = {"torch": ("exact", "bf16_unembed"), "jax": _LEGAL["products"], "devinterp": ("exact",)}


def config(values: Mapping[str, Any]) -> Config:
    """Build the configuration.

    Raises:
        Mistake: a key is unknown or missing, or a value of the wrong type or out of its range.
    """
    built: Config = _build(Config, values, "")
    _check_names(built)
    check_sampler(built.sampler)
    _check_measured(built)
    _check_ranges(built)
    _check_calibrate(built.calibrate)
    return built


def check_sampler(sampler: Sampler) -> None:
    """Refuse options with which no chain can run.

    Raises:
        Mistake: a value has the wrong type; nβ is not positive, ε or γ negative, one of them not finite, a count below
            1, a word not legal, or ε γ ≥ 4 (rmsprop: ε γ/eps ≥ 4), where w − w* of even a flat direction grows at each
            step; α, eps or A out of range; a budget that asks for no error, or no chains; a bias to be removed that is
            known for another method.
    """
    _build(Sampler, dataclasses.asdict(sampler), "sampler")
    for name, legal in _LEGAL.items():
        if getattr(sampler, name) not in legal:
            raise unknown(f"sampler.{name}", getattr(sampler, name), legal)
    for name in ("lr", "nbeta", "gamma"):
        value = getattr(sampler, name)
        if not math.isfinite(value) or value < 0 or (name == "nbeta" and value == 0):
            raise Mistake(
                f"sampler.{name}: {value} is not a finite number {'above' if name == 'nbeta' else 'of at least'} 0."
            )
    _check_method(sampler)
    products = _PRODUCTS[sampler.backend]
    if sampler.products not in products:
        raise Mistake(
            f"sampler.products: {sampler.products} cannot be used with sampler.backend {sampler.backend}; "
            f"legal: {', '.join(products)}."
        )
    for name in ("chains", "draws", "every", "batch", "reference_batches"):
        _at_least(f"sampler.{name}", getattr(sampler, name), 1)
    for name in ("burn_in", "warmup", "adapt"):
        _at_least(f"sampler.{name}", getattr(sampler, name), 0)
    if sampler.bias == "removed" and sampler.method != "sgld":
        raise Mistake(f"sampler.bias: removed is legal with sampler.method sgld only, not with {sampler.method}.")
    if sampler.budget is not None:
        _check_budget(sampler, sampler.budget)


def _check_method(sampler: Sampler) -> None:
    if not 0 <= sampler.alpha < 1:
        raise Mistake(f"sampler.alpha: {sampler.alpha} is not a number from 0 to below 1.")
    if not (math.isfinite(sampler.eps) and sampler.eps > 0):
        raise Mistake(f"sampler.eps: {sampler.eps} is not a finite number above 0.")
    if not (math.isfinite(sampler.friction) and sampler.friction >= 0):
        raise Mistake(f"sampler.friction: {sampler.friction} is not a finite number of at least 0.")
    name, scale = ("4 eps/gamma", sampler.eps) if sampler.method == "rmsprop" else ("4/gamma", 1.0)
    if sampler.lr * sampler.gamma >= 4 * scale:
        raise Mistake(
            f"sampler.lr: {sampler.lr} with sampler.gamma {sampler.gamma} is unstable by γ alone; "
            f"lr must be below {name} = {4 * scale / sampler.gamma:.3g}."
        )


def _check_budget(sampler: Sampler, budget: Budget) -> None:
    for key, value in (("relative", budget.relative), ("absolute", budget.absolute)):
        if not math.isfinite(value) or value < 0:
            raise Mistake(f"sampler.budget.{key}: {value} is not a finite number of at least 0.")
    if budget.relative == budget.absolute == 0:
        raise Mistake(
            "sampler.budget.absolute: 0.0 with sampler.budget.relative 0.0 asks for no error; set one above 0."
        )
    if sampler.chains < 2:
        raise Mistake(f"sampler.chains: {sampler.chains} is below 2, the least whose spread sampler.budget can use.")
    _at_least("sampler.budget.chains", budget.chains, sampler.chains)


def check_general(sampler: Sampler, what: str) -> None:
    """Refuse options that only the attention models on their own text have; `what` is measured instead.

    Raises:
        Mistake: another backend than torch, or other than exact products.
    """
    for name, only in (("backend", "torch"), ("products", "exact")):
        if (value := getattr(sampler, name)) != only:
            raise Mistake(f"sampler.{name}: {value} cannot be used with {what}; legal: {only}.")


def known_key(path: str) -> None:
    """Check the key of an override against the schema.

    Raises:
        Mistake: there is no such key; the legal ones at that place are listed.
    """
    where: Any = Config
    walked = ""
    for step in path.split("."):
        walked = f"{walked}.{step}".lstrip(".")
        if get_origin(where) is dict:
            where = get_args(where)[1]
        elif dataclasses.is_dataclass(where):
            hints = get_type_hints(where)
            if step not in hints:
                raise Mistake(f"{walked}: there is no such key; legal: {', '.join(hints)}.")
            where = hints[step]
        else:
            return


def _check_measured(config: Config) -> None:
    """Check what the labels of another model, or a module of the user's, cannot be measured with."""
    if any(dataset.labels for dataset in config.data.values()):
        check_general(config.sampler, "labels")
    if config.grid.keep:
        check_general(config.sampler, "grid.keep")
        if config.sampler.budget or config.module or any(dataset.labels for dataset in config.data.values()):
            raise Mistake("grid.keep: token losses cannot be kept with sampler.budget, labels or model=module.")
    if config.module is None:
        return
    check_general(config.sampler, "model=module")
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
        _at_least(f"model.{name}", getattr(model, name), 1)
    _at_least("model.n_ctx", model.n_ctx, 4)
    _at_least("model.d_vocab", model.d_vocab, 257)
    for name, least in (("steps", 1), ("batch", 1), ("warmup", 0)):
        _at_least(f"train.{name}", getattr(train, name), least)
    _at_least("train.checkpoints.every", train.checkpoints.every, 1)
    _at_least("train.checkpoints.log", train.checkpoints.log, 0)
    for key, value, low, high in (
        ("train.lr", train.lr, 0, math.inf), ("train.weight_decay", train.weight_decay, 0, math.inf),
        ("train.clip", train.clip, 0, math.inf), ("train.repeats", train.repeats, 0, 1),
        *((f"train.betas.{i}", beta, 0, 1) for i, beta in enumerate(train.betas)),
    ):  # fmt: skip
        if not (math.isfinite(value) and low <= value <= high):
            raise Mistake(f"{key}: {value} is not a finite number from {low} to {high}.")
    if len(train.betas) != 2:
        raise Mistake(f"train.betas: {train.betas} must be two numbers.")
    _at_least("launch.threads", config.launch.threads, 1)
    if config.launch.workers is not None:
        _at_least("launch.workers", config.launch.workers, 1)
    for value in config.grid.steps or []:
        _at_least("grid.steps", value, 0)
    for name in ("n_init", "null_draws"):
        _at_least(f"cluster.{name}", getattr(cluster, name), 1)
    for k in [*([] if cluster.k is None else [cluster.k]), *cluster.k_range]:
        _at_least("cluster.k", k, 2)
    for name, dataset in config.data.items():
        _at_least(f"data.{name}.pool", dataset.pool, 1)


def _check_calibrate(calibrate: Calibrate) -> None:
    for name in ("lr", "gamma", "nbeta", "relaxations", "tolerance", "signal", "errors"):
        found = getattr(calibrate, name)
        for value in found if isinstance(found, list) else [found]:
            if not (math.isfinite(value) and value > 0):
                raise Mistake(f"calibrate.{name}: {value} is not a finite number above 0.")
    _at_least("calibrate.chains", calibrate.chains, 2)
    for value in calibrate.steps or []:
        _at_least("calibrate.steps", value, 0)


def _at_least(key: str, value: int, least: int) -> None:
    if value < least:
        raise Mistake(f"{key}: {value} is below the least legal value, {least}.")


def _build(kind: Any, value: Any, key: str) -> Any:
    """A value of the annotated type `kind`, or a Mistake that names `key`."""
    origin, args = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, value, key)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        return _build(next(arg for arg in args if arg is not type(None)), value, key)
    if origin is Literal:
        if value not in args:
            raise unknown(key, value, args)
        return value
    if origin is list:
        if not isinstance(value, list | tuple):
            raise Mistake(f"{key}: {value!r} is not a list, as {key}=[…].")
        return [_build(args[0], item, key) for item in value]
    if origin is dict:
        if not isinstance(value, Mapping):
            raise Mistake(f"{key}: {value!r} is not a group of named values.")
        return {str(name): _build(args[1], item, f"{key}.{name}") for name, item in value.items()}
    return _build_scalar(kind, value, key)


def _build_dataclass(kind: Any, value: Any, key: str) -> Any:
    if not isinstance(value, Mapping):
        raise Mistake(f"{key or 'the configuration'}: {value!r} is not a group of named values.")
    hints = get_type_hints(kind)
    prefix = f"{key}." if key else ""
    for name in value:
        if name not in hints:
            raise Mistake(f"{prefix}{name}: there is no such key; legal: {', '.join(hints)}.")
    defaulted = {field.name for field in dataclasses.fields(kind) if field.default is not dataclasses.MISSING}
    if missing := [name for name in hints if name not in value and name not in defaulted]:
        raise Mistake(f"{prefix}{missing[0]}: no value is given.")
    return kind(**{name: _build(hints[name], item, f"{prefix}{name}") for name, item in value.items()})


def _build_scalar(kind: type, value: Any, key: str) -> Any:
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool):
        return value
    raise Mistake(f"{key}: {value!r} is not {names[kind]}.")

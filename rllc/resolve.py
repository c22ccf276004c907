"""From the nested plain values of a configuration to `Config`: every key and value is checked before any work."""

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

from rllc import legal, schema
from rllc.config import Calibrate, Config, Launch, Local, Slurm
from rllc.mistake import Mistake, at_least, unknown

LETTERS = 100  # of a name; file systems take 255, and a name gets endings
SEEDS = 2**63  # how many there are: the tables hold 64 bits with a sign
DRAWS = 10_000
_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)S?(?![A-Z])(?!_(FILE|PATH)$)", re.IGNORECASE)


def config(values: Mapping[str, Any]) -> Config:
    """Build the configuration.

    Raises:
        Mistake: a key is unknown or missing, or a value of the wrong type or out of its range.
    """
    built: Config = _mixed(schema.build(Config, values, ""))
    _check_names(built)
    legal.check_sampler(built.sampler)
    legal.check_backend(built.sampler, built.model)
    _check_measured(built)
    _check_ranges(built)
    _check_launch(built.launch)
    _check_calibrate(built.calibrate)
    return built


def text(config: Config) -> str:
    """The configuration as YAML; `config` of what that holds is equal to it."""
    import yaml

    return str(yaml.safe_dump(dataclasses.asdict(config), sort_keys=False, allow_unicode=True))


def _mixed(config: Config) -> Config:
    """Put into each dataset that is made of others those that its weights name."""
    made = ("mixture", "ngrams")
    simple = {name: dataset for name, dataset in config.data.items() if dataset.source not in made}
    whole = {}
    for name, dataset in config.data.items():
        if dataset.of is not None:
            raise Mistake(f"data.{name}.of: it is filled in; name the datasets in data.{name}.mix.")
        if dataset.source in made:
            for part in dataset.mix or {}:
                if part not in simple:
                    raise unknown(f"data.{name}.mix", part, simple)
            dataset = dataclasses.replace(dataset, of={part: simple[part] for part in dataset.mix or {}})
        whole[name] = dataset
    return dataclasses.replace(config, data=whole)


def _check_measured(config: Config) -> None:
    """Check what the labels of another model, or a module of the user's, cannot be measured with."""
    if any(dataset.labels for dataset in config.data.values()):
        legal.check_general(config.sampler, "labels")
    if config.grid.keep:
        legal.check_general(config.sampler, "grid.keep")
        if config.sampler.budget or config.module or any(dataset.labels for dataset in config.data.values()):
            raise Mistake("grid.keep: token losses cannot be kept with sampler.budget, labels or model=module.")
    if config.source is not None and (config.path is not None or config.module is not None):
        raise Mistake("source: it cannot be used with path= or model=module, which name a run of their own.")
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
        if len(value) > LETTERS:
            raise Mistake(f"{key}: {value[:20]}… has {len(value)} letters; at most {LETTERS} are legal.")
    for name in config.data:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in ("repeats", "weights"):
            raise Mistake(
                f"data: {name!r} is not a name of a dataset; use letters, digits and _, and not repeats or weights."
            )
    if not config.data:
        raise Mistake("data: {} names no dataset; at least one is needed, as data=[stdlib_mix,stdlib_code].")
    datasets = config.data if config.module is None else config.module.data
    for dataset in config.grid.datasets or []:
        if dataset not in datasets:
            raise unknown("grid.datasets", dataset, datasets)
    if not config.elsewhere and config.train.data not in config.data:
        raise unknown("train.data", config.train.data, config.data)
    if not config.elsewhere and config.data[config.train.data].source in ("repeats", "ngrams"):
        raise Mistake(f"train.data: {config.train.data} is made for estimation and has no text to train on.")
    for key, values in (
        ("train.seeds", config.train.seeds), ("grid.parts", config.grid.parts), ("grid.seeds", config.grid.seeds),
        ("grid.metrics", config.grid.metrics), ("grid.steps", config.grid.steps),
        ("grid.datasets", config.grid.datasets), ("stages", config.stages),
        ("merge", config.merge), ("cluster.methods", config.cluster.methods),
        ("cluster.scalings", config.cluster.scalings), ("cluster.k_range", config.cluster.k_range),
        *((f"calibrate.{key}", getattr(config.calibrate, key)) for key in ("lr", "gamma", "nbeta", "steps", "parts")),
    ):  # fmt: skip
        if values is not None and (not values or len(set(values)) < len(values)):
            raise Mistake(f"{key}: {values} must hold at least one value, and none twice.")


def _check_ranges(config: Config) -> None:
    model, train, cluster = config.model, config.train, config.cluster
    legal.check_model(model, "model")
    at_least("model.n_ctx", model.n_ctx, 4)
    at_least("model.d_vocab", model.d_vocab, 257)
    for name, least in (("steps", 1), ("batch", 1), ("warmup", 0)):
        at_least(f"train.{name}", getattr(train, name), least)
    if train.processes is not None and not 1 <= train.processes <= train.batch:
        raise Mistake(
            f"train.processes: {train.processes} processes cannot share the {train.batch} rows of train.batch; "
            f"legal: 1 to {train.batch}."
        )
    if train.bos is not None and train.tokenizer is None:
        raise Mistake(f"train.bos: {train.bos} is of a train.tokenizer, which is null.")
    at_least("train.checkpoints.every", train.checkpoints.every, 1)
    at_least("train.checkpoints.log", train.checkpoints.log, 0)
    for key, value, low, high in (
        ("train.lr", train.lr, 0, math.inf), ("train.weight_decay", train.weight_decay, 0, math.inf),
        ("train.repeats", train.repeats, 0, 1), ("track.quiet", config.track.quiet, 0, math.inf),
    ):  # fmt: skip
        if not (math.isfinite(value) and low <= value <= high):
            raise Mistake(f"{key}: {value} is not a finite number from {low} to {high}.")
    if not (math.isfinite(train.clip) and train.clip > 0):
        raise Mistake(f"train.clip: {train.clip} is not a finite number above 0; 1e9 clips nothing.")
    if len(train.betas) != 2 or not all(0 <= beta < 1 for beta in train.betas):
        raise Mistake(f"train.betas: {train.betas} must be two numbers from 0 to below 1.")
    for key, seeds in (("train.seeds", train.seeds), ("grid.seeds", config.grid.seeds)):
        for seed in seeds:
            if not 0 <= seed < SEEDS:
                raise Mistake(f"{key}: {seed} is not a whole number from 0 to {SEEDS - 1}.")
    for value in config.grid.steps or []:
        at_least("grid.steps", value, 0)
    for name in ("n_init", "null_draws"):
        at_least(f"cluster.{name}", getattr(cluster, name), 1)
    if cluster.draws > DRAWS:
        raise Mistake(f"cluster.draws: {cluster.draws} is above the most legal value, {DRAWS}.")
    for k in [*([] if cluster.k is None else [cluster.k]), *cluster.k_range]:
        at_least("cluster.k", k, 2)
    for name, dataset in config.data.items():
        at_least(f"data.{name}.pool", dataset.pool, 1)


def _check_launch(launch: Launch) -> None:
    if isinstance(launch, Local):
        counts = {"workers": launch.workers, "threads": launch.threads, "attempts": launch.attempts}
        if launch.devices is not None and not launch.devices:
            raise Mistake("launch.devices: [] names no GPU; null leaves the choice to the environment.")
    else:
        counts = {
            name: getattr(launch, name)
            for name in (
                "shards", "running", "gpus", "cpus", "signal_seconds", "attempts", "workers_per_gpu", "max_array",
            )
        }  # fmt: skip
        at_least("launch.max_requeues", launch.max_requeues, 0)
        _check_words(launch)
    for name, count in counts.items():
        if count is not None:
            at_least(f"launch.{name}", count, 1)


def _check_words(launch: Slurm) -> None:
    """Refuse what would break a line of the script, or another key would undo."""
    for name, value in vars(launch).items():
        if isinstance(value, str) and "\n" in value:
            raise Mistake(f"launch.{name}: {value!r} must stand on one line.")
    for name in launch.env:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise Mistake(f"launch.env: {name!r} is not a name of a variable; use letters, digits and _.")
        if _SECRET.search(name):
            raise Mistake(
                f"launch.env: {name} looks like a secret, which would be written down; export it before `rllc sweep`, "
                "for sbatch hands the environment on, or read a file of yours in launch.setup."
            )
    for name in ("extra_sbatch", "extra_gather"):
        for word in getattr(launch, name):
            if not re.fullmatch(r"-\w|--?\w[^\n]*", word):
                raise Mistake(f"launch.{name}: {word!r} is not an option of sbatch, as --nice=100.")
            if re.match(r"--array\b|-a\b|--wrap\b", word):
                raise Mistake(f"launch.{name}: {word!r} is not legal; launch.shards and launch.running set the array.")
    if launch.time is not None and not re.fullmatch(r"(\d+-)?\d+(:\d+){0,2}", launch.time):
        raise Mistake(f"launch.time: {launch.time!r} is not a time limit; write minutes, h:mm:ss or d-hh:mm:ss.")
    if launch.gpus is not None and launch.gres is not None:
        raise Mistake(
            f"launch.gres: {launch.gres!r} and launch.gpus {launch.gpus} ask for GPUs twice; set one to null."
        )


def _check_calibrate(calibrate: Calibrate) -> None:
    for name in ("lr", "gamma", "nbeta", "relaxations", "tolerance", "signal", "errors"):
        found = getattr(calibrate, name)
        for value in found if isinstance(found, list) else [found]:
            if not (math.isfinite(value) and value > 0):
                raise Mistake(f"calibrate.{name}: {value} is not a finite number above 0.")
    at_least("calibrate.chains", calibrate.chains, 2)
    for value in calibrate.steps or []:
        at_least("calibrate.steps", value, 0)

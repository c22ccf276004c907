import copy
import dataclasses
import math
from typing import Any

import pytest

from rllc import composition, legal, resolve, schema
from rllc.config import Config, Slurm
from rllc.mistake import Mistake
from rllc.task import Budget, Sampler


@pytest.fixture(scope="module")
def config() -> Config:
    return composition.compose()


@pytest.fixture
def values(config: Config) -> dict[str, Any]:
    return copy.deepcopy(dataclasses.asdict(config))


def put(values: dict[str, Any], key: str, value: object) -> dict[str, Any]:
    *path, last = key.split(".")
    place = values
    for name in path:
        place = place[name]
    place[last] = value
    return values


def test_a_resolved_configuration_resolves_to_itself(config: Config, values: dict[str, Any]) -> None:
    assert resolve.config(values) == config


@pytest.mark.parametrize(
    ("key", "given", "meant"),
    [
        ("sampler.nbeta", 1, 1.0), ("name", 7, "7"), ("grid.steps", None, None), ("grid.steps", [0, 100], [0, 100]),
        ("launch.workers", None, None), ("launch.workers", 3, 3), ("cluster.k", 4, 4),
        ("sampler.gamma", 0, 0.0), ("sampler.budget", None, None),
        ("sampler.budget", {"relative": 0, "absolute": 0.01, "chains": 64}, Budget(0.0, 0.01, 64)),
        ("stages", ["cluster"], ["cluster"]),
    ],
)  # fmt: skip
def test_values_get_the_type_that_is_meant(values: dict[str, Any], key: str, given: object, meant: object) -> None:
    found: Any = resolve.config(put(values, key, given))
    for name in key.split("."):
        found = getattr(found, name)
    assert found == meant
    assert type(found) is type(meant)


WRONG = [
    ("sampler.draws", "abc", "sampler.draws: 'abc' is not a whole number."),
    ("sampler.draws", 1.5, "sampler.draws: 1.5 is not a whole number."),
    ("sampler.draws", True, "sampler.draws: True is not a whole number."),
    ("sampler.draws", None, "sampler.draws: None is not a whole number."),
    ("sampler.lr", True, "sampler.lr: True is not a number."),
    ("cluster.per_layer", 0, "cluster.per_layer: 0 is not true or false."),
    ("name", [1], r"name: \[1\] is not text."),
    ("name", True, "name: True is not text."),
    ("grid.parts", "L0H1", "grid.parts: 'L0H1' is not a list, as grid.parts="),
    ("grid.steps", [1.5], "grid.steps: 1.5 is not a whole number."),
    ("data", ["files"], r"data: \['files'\] is not a group of named values."),
    ("sampler", 3, "sampler: 3 is not a group of named values; its keys: lr, nbeta, gamma, "),
    ("sampler.typo", 1, "sampler.typo: there is no such key; legal: lr, nbeta"),
    ("typo", 1, "typo: there is no such key; legal: name, root"),
    ("data.stdlib_mix.typo", 1, "data.stdlib_mix.typo: there is no such key; legal: source, mix"),
    ("data.stdlib_mix.source", "web", "data.stdlib_mix.source: 'web' is not one of: stdlib, files."),
    ("data.stdlib_mix.mix", {"code": "x"}, "data.stdlib_mix.mix.code: 'x' is not a number."),
    ("model.positions", "sine", "model.positions: 'sine' is not one of: shortformer, learned, rotary."),
    ("cluster.primary.method", "best", "cluster.primary.method: 'best' is not one of: kmeans"),
    ("name", "", "name: '' is not a name"),
    ("name", "../up", "name: '../up' is not a name"),
    ("name", ".hidden", "name: '.hidden' is not a name"),
    ("run", "a b", "run: 'a b' is not a name"),
    ("data", {}, "data: {} names no dataset"),
    ("grid.datasets", ["pile"], "grid.datasets: 'pile' is not one of: stdlib_mix, stdlib_code."),
    ("train.data", "pile", "train.data: 'pile' is not one of: stdlib_mix, stdlib_code."),
    *[(key, [], f"{key}: \\[\\] must hold at least one value") for key in (
        "train.seeds", "grid.parts", "grid.seeds", "grid.metrics", "grid.steps", "grid.datasets", "stages",
        "cluster.methods", "cluster.scalings", "cluster.k_range",
    )],
    *[(key, [1, 1], f"{key}: \\[1, 1\\] must hold at least one value, and none twice") for key in (
        "train.seeds", "grid.seeds", "grid.steps",
    )],
    *[(f"sampler.{name}", 0, f"sampler.{name}: 0 is below the least legal value, 1.") for name in (
        "chains", "draws", "every", "batch", "reference_batches",
    )],
    *[(f"sampler.{name}", -1, f"sampler.{name}: -1 is below the least legal value, 0.") for name in (
        "burn_in", "warmup", "adapt",
    )],
    *[("sampler.alpha", value, f"sampler.alpha: {value} is not a number from 0 to below 1.") for value in (
        -0.1, 1.0, math.nan,
    )],
    *[("sampler.eps", value, f"sampler.eps: {value} is not a finite number above 0.") for value in (
        0.0, -0.1, math.nan, math.inf,
    )],
    *[("sampler.friction", value, f"sampler.friction: {value} is not a finite number of at least 0.") for value in (
        -1.0, math.nan, math.inf,
    )],
    ("sampler.friction", 2.0, "sampler.friction: 2.0 is for sampler.method sgnht; with sgld only its default, 1.0, is"),
    ("sampler.adapt", 5, "sampler.adapt: 5 is for sampler.method rmsprop; with sgld only its default, 0, is legal."),
    *[("sampler.nbeta", value, f"sampler.nbeta: {value} is not a finite number above 0.") for value in (
        0.0, -1.0, math.nan, math.inf,
    )],
    *[(f"sampler.{name}", value, f"sampler.{name}: {value} is not a finite number of at least 0.")
      for name in ("lr", "gamma") for value in (-1.0, math.nan, math.inf)],
    *[(f"sampler.{name}", "x", f"sampler.{name}: 'x' is not one of: ") for name in (
        "batches", "reference", "dtype", "backend", "method",
    )],
    *[("sampler.budget", budget, sentence) for budget, sentence in (
        ({"relative": -1, "absolute": 0, "chains": 64}, "sampler.budget.relative: -1.0 is not a finite number"),
        ({"relative": 0.1, "absolute": math.inf, "chains": 64}, "sampler.budget.absolute: inf is not a finite number"),
        ({"relative": 0, "absolute": 0, "chains": 64}, "sampler.budget.absolute: 0.0 with .* asks for no error"),
        ({"relative": 0.1, "absolute": 0, "chains": 7}, "sampler.budget.chains: 7 is below the least legal value, 8."),
        ({"relative": 0.1, "absolute": 0}, "sampler.budget.chains: no value is given."),
        ({"relative": 0.1, "absolute": 0, "chains": 64, "typo": 1}, "sampler.budget.typo: there is no such key"),
        (64, "sampler.budget: 64 is not a group of named values; its keys: relative, absolute, chains."),
    )],
    ("sampler.lr", 0.02, "sampler.lr: 0.02 with sampler.gamma 200.0 is unstable by γ alone; .* 4/gamma = 0.02."),
    ("model.d_vocab", 256, "model.d_vocab: 256 is below the least legal value, 257."),
    ("model.n_ctx", 3, "model.n_ctx: 3 is below the least legal value, 4."),
    ("train.steps", 0, "train.steps: 0 is below"),
    ("train.lr", math.nan, "train.lr: nan is not a finite number"),
    ("train.repeats", 1.5, "train.repeats: 1.5 is not a finite number from 0 to 1."),
    ("train.betas", [0.9], r"train.betas: \[0.9\] must be two numbers from 0 to below 1."),
    ("train.betas", [0.9, 1.0], r"train.betas: \[0.9, 1.0\] must be two numbers from 0 to below 1."),
    ("train.betas", [math.nan, 0.9], r"train.betas: \[nan, 0.9\] must be two numbers from 0 to below 1."),
    ("train.clip", 0.0, "train.clip: 0.0 is not a finite number above 0; 1e9 clips nothing."),
    ("track.quiet", math.nan, "track.quiet: nan is not a finite number from 0 to inf."),
    ("launch.kind", [1], r"launch.kind: \[1\] is not one of: local, slurm."),
    ("launch.kind", {}, r"launch.kind: \{\} is not one of: local, slurm."),
    ("path", "", "path: '' is empty; null stands for nothing."),
    ("train.checkpoints.every", 0, "train.checkpoints.every: 0 is below"),
    ("launch.workers", 0, "launch.workers: 0 is below"),
    ("launch.threads", 0, "launch.threads: 0 is below"),
    ("cluster.k", 1, "cluster.k: 1 is below the least legal value, 2."),
    ("cluster.null_draws", 0, "cluster.null_draws: 0 is below"),
    *[(key, [seed], f"{key}: {seed} is not a whole number from 0 to {2**63 - 1}.") for key in (
        "train.seeds", "grid.seeds",
    ) for seed in (-1, 2**63)],
    ("name", "n" * 101, "name: nnnnnnnnnnnnnnnnnnnn… has 101 letters; at most 100 are legal."),
    ("run", "r" * 300, "run: rrrrrrrrrrrrrrrrrrrr… has 300 letters"),
    ("cluster.draws", 10_001, "cluster.draws: 10001 is above the most legal value, 10000."),
    ("data.stdlib_mix.pool", 0, "data.stdlib_mix.pool: 0 is below"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "sentence"), WRONG, ids=[f"{key}={value}" for key, value, _ in WRONG])
def test_a_wrong_value_is_refused_by_its_key(values: dict[str, Any], key: str, value: object, sentence: str) -> None:
    with pytest.raises(Mistake, match=f"^{sentence}"):
        resolve.config(put(values, key, value))


def test_the_largest_legal_values_are_legal(values: dict[str, Any]) -> None:
    for key, value in (("grid.seeds", [0, 2**63 - 1]), ("name", "n" * 100), ("cluster.draws", 10_000)):
        put(values, key, value)
    assert resolve.config(values).grid.seeds == [0, 2**63 - 1]


@pytest.mark.parametrize("name", ["WANDB_API_KEY", "hf_token", "AWS_SECRET_ACCESS_KEY", "PASSWORD2", "API_KEYS"])
def test_a_secret_among_the_variables_is_refused_and_not_shown(name: str) -> None:
    with pytest.raises(Mistake, match=rf"^launch.env: {name} looks like a secret, .* written down; export it") as told:
        composition.compose(["launch=slurm", f"+launch.env.{name}=hunter2"])
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "HF_TOKEN_PATH", "KEYBOARD", "OMP_NUM_THREADS"])
def test_a_variable_that_only_sounds_like_a_secret_is_legal(name: str) -> None:
    launch = composition.compose(["launch=slurm", f"+launch.env.{name}=x"]).launch
    assert isinstance(launch, Slurm)
    assert launch.env == {name: "x"}


def test_a_missing_value_is_named(values: dict[str, Any]) -> None:
    del values["sampler"]["nbeta"]
    with pytest.raises(Mistake, match=r"^sampler.nbeta: no value is given.$"):
        resolve.config(values)


def test_training_data_does_not_matter_where_no_run_is_trained(values: dict[str, Any]) -> None:
    values["train"]["data"], values["path"] = "pile", "somewhere"
    assert resolve.config(values).train.data == "pile"


@pytest.mark.parametrize(("method", "border"), [("sgld", 4), ("sgnht", 4), ("rmsprop", 0.4)])
@pytest.mark.parametrize("gamma", [1.0, 200.0])
def test_the_border_of_stability_is_lr_gamma_4(config: Config, gamma: float, method: str, border: float) -> None:
    """With RMSprop the largest preconditioner, 1/eps = 10, counts."""
    inside: Sampler = dataclasses.replace(config.sampler, method=method, gamma=gamma, lr=0.999999 * border / gamma)
    legal.check_sampler(inside)
    with pytest.raises(Mistake, match="unstable"):
        legal.check_sampler(dataclasses.replace(inside, lr=1.000001 * border / gamma))


def test_a_budget_is_given_on_the_command_line() -> None:
    given = composition.compose(["sampler.budget={relative: 0.02, absolute: 0.01, chains: 64}", "sampler.chains=4"])
    assert given.sampler.budget == Budget(0.02, 0.01, 64)


def test_a_budget_needs_two_chains_and_a_removed_bias_sgld(config: Config) -> None:
    one = dataclasses.replace(config.sampler, chains=1, budget=Budget(0.1, 0.0, 64))
    with pytest.raises(Mistake, match=r"^sampler.chains: 1 is below 2"):
        legal.check_sampler(one)
    other = dataclasses.replace(config.sampler, bias="removed", method="rmsprop")
    with pytest.raises(
        Mistake, match=r"^sampler.bias: removed is legal with sampler.method sgld only, not with rmsprop"
    ):
        legal.check_sampler(other)


@pytest.mark.parametrize("key", ["sampler.lr", "data.anything.path", "data.x.mix.code", "cluster.primary.method"])
def test_known_keys(key: str) -> None:
    schema.known_key(Config, key)


@pytest.mark.parametrize("key", ["samplr", "sampler.lrr", "data.x.pth", "cluster.primary.k"])
def test_unknown_keys(key: str) -> None:
    with pytest.raises(Mistake, match=r": there is no such key; legal: "):
        schema.known_key(Config, key)


@pytest.mark.parametrize(
    ("backend", "products", "those"), [("torch", "bf16", "exact, bf16_unembed"), ("devinterp", "bf16", "exact")]
)
def test_products_that_a_backend_has_not(backend: str, products: str, those: str) -> None:
    sampler = Sampler(1e-3, 30.0, 200.0, 4, 40, 0, 8, backend=backend, products=products)
    with pytest.raises(Mistake, match=rf"^sampler.products: {products} cannot be used with .*; legal: {those}\.$"):
        legal.check_sampler(sampler)

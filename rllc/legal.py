"""With which options a sampler can run, and which shapes a decoder can have."""

import dataclasses
import math

from rllc import schema
from rllc.config import Model, plain
from rllc.mistake import Mistake, at_least, unknown
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
_OPTIONS = {"rmsprop": ("alpha", "eps", "adapt"), "sgnht": ("friction",)}  # of one method alone
_DEFAULT = {field.name: field.default for field in dataclasses.fields(Sampler)}
_PRODUCTS = {"torch": ("exact", "bf16_unembed"), "jax": _LEGAL["products"], "devinterp": ("exact",)}


def check_sampler(sampler: Sampler) -> None:
    """Refuse options with which no chain can run.

    Raises:
        Mistake: a value has the wrong type; nβ is not positive, ε or γ negative, one of them not finite, a count below
            1, a word not legal, or ε γ ≥ 4 (rmsprop: ε γ/eps ≥ 4), where w − w* of even a flat direction grows at each
            step; α, eps or A out of range; a budget that asks for no error, or no chains; a bias to be removed that is
            known for another method; an option of another method.
    """
    schema.build(Sampler, dataclasses.asdict(sampler), "sampler")
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
        at_least(f"sampler.{name}", getattr(sampler, name), 1)
    for name in ("burn_in", "warmup", "adapt"):
        at_least(f"sampler.{name}", getattr(sampler, name), 0)
    if sampler.bias == "removed" and sampler.method != "sgld":
        raise Mistake(f"sampler.bias: removed is legal with sampler.method sgld only, not with {sampler.method}.")
    if sampler.budget is not None:
        _check_budget(sampler, sampler.budget)
    _check_others(sampler)


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


def _check_others(sampler: Sampler) -> None:
    """Refuse what would change the key and nothing else."""
    for method, names in _OPTIONS.items():
        for name in names if method != sampler.method else ():
            if (value := getattr(sampler, name)) != _DEFAULT[name]:
                raise Mistake(
                    f"sampler.{name}: {value} is for sampler.method {method}; with {sampler.method} only its default, "
                    f"{_DEFAULT[name]}, is legal."
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
    at_least("sampler.budget.chains", budget.chains, sampler.chains)


def check_general(sampler: Sampler, what: str) -> None:
    """Refuse options that only the attention models on their own text have; `what` is measured instead.

    Raises:
        Mistake: another backend than torch, or other than exact products.
    """
    for name, only in (("backend", "torch"), ("products", "exact")):
        if (value := getattr(sampler, name)) != only:
            raise Mistake(f"sampler.{name}: {value} cannot be used with {what}; legal: {only}.")


def check_model(model: Model, key: str) -> None:
    """Refuse a shape that no decoder has; `key` names its place.

    Raises:
        Mistake: a size is below 1, heads cannot be grouped, rotary positions turn an odd number of channels or more
            than a head has, or an option needs an MLP that is not there.
    """
    for name in ("n_layers", "n_heads", "d_model", "d_head", "n_ctx", "d_vocab"):
        at_least(f"{key}.{name}", getattr(model, name), 1)
    at_least(f"{key}.d_mlp", model.d_mlp, 0)
    if model.n_kv is not None and (model.n_kv < 1 or model.n_heads % model.n_kv):
        raise Mistake(f"{key}.n_kv: {model.n_kv} groups of {model.n_heads} heads are not equally large.")
    rotary, turned = model.positions == "rotary", model.d_rotary
    if turned % 2 or not (2 <= turned <= model.d_head if rotary else turned == 0):
        only = f"an even number from 2 to d_head {model.d_head}" if rotary else "0"
        raise Mistake(f"{key}.d_rotary: {turned} cannot be with positions {model.positions}; legal: {only}.")
    for name in ("rotary_base", "eps"):
        if not (math.isfinite(getattr(model, name)) and getattr(model, name) > 0):
            raise Mistake(f"{key}.{name}: {getattr(model, name)} is not a finite number above 0.")
    for name in ("gated", "parallel"):
        if getattr(model, name) and not model.d_mlp:
            raise Mistake(f"{key}.{name}: true needs an MLP; set {key}.d_mlp above 0.")


def check_backend(sampler: Sampler, model: Model) -> None:
    """Refuse a backend that does not compute a model.

    Raises:
        Mistake: backend jax, and the model is not attention-only with LayerNorms and all biases.
    """
    sizes = ("n_layers", "n_heads", "d_model", "d_head", "n_ctx", "d_vocab")
    further = [f"{name} {value}" for name, value in plain(model).items() if name not in sizes]
    if sampler.backend == "jax" and (len(further) > 1 or model.positions == "rotary"):
        raise Mistake(
            f"sampler.backend: jax computes attention-only models, not one with {', '.join(further)}; legal: torch."
        )

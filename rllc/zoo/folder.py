"""One checkpoint of a run: its model, content hash and weights, whatever its format.

The keys are TransformerLens's or those of transformers, and which is told by the model: from the metadata of the file
itself, where rllc wrote it, or from the `config.json` in its folder or the one above.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rllc import atomic
from rllc.config import Model, plain
from rllc.mistake import Mistake
from rllc.zoo import arrays, pointer
from rllc.zoo.steps import checkpoints

if TYPE_CHECKING:
    from types import ModuleType

    from rllc.models.chains import Weights

__all__ = ["checkpoints", "describe", "load", "model_of", "save", "shape"]


def describe(path: Path) -> tuple[Model, str]:
    """The model of a checkpoint and its content hash (16 hexadecimal digits), keys and shapes checked, no weights kept.

    Raises:
        Mistake: a file is missing, damaged, holds code, or is of another architecture.
    """
    target, model, layout, digest = _known(path)
    layout.check(arrays.shapes(target), model, str(target))
    return model, digest or arrays.digest(target)


def shape(path: Path) -> Model:
    """The model of a checkpoint, whose weights are neither read nor checked.

    Raises:
        Mistake: a file is missing or damaged, or names no model that can be read.
    """
    return _known(path)[1]


def load(path: Path) -> "tuple[Model, Weights]":
    """The model and the stacked weights of a checkpoint; those in half precision come as float32.

    Raises:
        Mistake: a file is missing, damaged, holds code, is of another architecture, or holds what is no finite number.
    """
    import torch

    target, model, layout, _ = _known(path)
    weights = layout.load(arrays.read(target), model, str(target))
    for name, array in weights.items():
        if not array.is_floating_point() or not array.isfinite().all():
            what = "a number that is not finite" if array.is_floating_point() else f"{array.dtype} in place of floats"
            raise Mistake(f"run: {target} holds {what} in {name}.")
    half = (torch.float16, torch.bfloat16)
    own = {  # one after the other into torch's own aligned memory, so that only one is there twice
        name: array.to(
            torch.float32 if array.dtype in half else array.dtype, copy=True, memory_format=torch.contiguous_format
        )
        for name, array in weights.items()
    }
    return model, own


def save(path: Path, model: Model, weights: "Weights") -> None:
    """Write a checkpoint, whole or not at all; equal weights give equal bytes."""
    from safetensors.torch import save as packed

    from rllc.models import lens

    metadata = {"model": json.dumps(plain(model))}  # one entry: several come in random order
    state = {key: array.detach().contiguous() for key, array in lens.save(weights, model).items()}
    with atomic.replace(path) as file:
        file.write(packed(state, metadata))


def model_of(config: Path) -> "tuple[Model, ModuleType]":
    """The model that a config.json says, and the module that knows the keys of its checkpoints.

    Raises:
        Mistake: it is not JSON, or describes a model that cannot be read.
    """
    from rllc.models import hf, lens

    try:
        found: Any = json.loads(config.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Mistake(f"run: {config} is not JSON ({error}).") from None
    if not isinstance(found, dict):
        raise Mistake(f"run: {config} is not a group of named values.")
    if "model_type" in found:
        return hf.describe(found, f"run: {config}"), hf
    return _from_lens_config(config, found), lens


def _known(path: Path) -> "tuple[Path, Model, ModuleType, str]":
    """Where a checkpoint is, its model, the module that knows its keys, and its content hash where that is kept."""
    from rllc.models import lens

    if path.suffix != ".json":
        return path, *_model(path), ""
    found = pointer.read(path)
    target = Path(found.target)
    model, layout = (Model(**found.model), lens) if found.model else _model(target)
    return target, model, layout, found.digest


def _model(path: Path) -> "tuple[Model, ModuleType]":
    from rllc.models import lens

    if not path.exists():
        raise Mistake(f"run: {path} does not exist.")
    if said := arrays.metadata(path).get("model"):
        try:
            return Model(**json.loads(said)), lens
        except (TypeError, ValueError):
            raise Mistake(f"run: {path} was not written by rllc: its model is {said!r}.") from None
    for place in [path] if path.is_dir() else [path.parent, path.parent.parent]:
        if (place / "config.json").is_file():
            return model_of(place / "config.json")
    raise Mistake(f"run: {path} names no model, and there is no config.json beside it.")


def _from_lens_config(path: Path, config: dict[str, Any]) -> Model:
    """The model of a config.json of TransformerLens; files of its first years have older names for two of the keys."""
    norm = config.get("normalization_type", config.get("normalization"))
    old = "shortformer" if config.get("shortformer_pos") else "standard"
    positions = config.get("positional_embedding_type", old)
    legal: dict[str, Literal["shortformer", "learned"]] = {"shortformer": "shortformer", "standard": "learned"}
    if not config.get("attn_only") or norm != "LN" or positions not in legal:
        raise Mistake(
            f"run: {path} is not an attention-only model with normalization_type LN and positional_embedding_type "
            f"{' or '.join(legal)}."
        )
    sizes = ("n_layers", "n_heads", "d_model", "d_head", "n_ctx", "d_vocab")
    for name in sizes:
        if not isinstance(config.get(name), int) or config[name] < 1:
            raise Mistake(f"run: {path} gives {config.get(name)!r} for {name}, which is not a whole number above 0.")
    return Model(**{name: config[name] for name in sizes}, positions=legal[positions])

"""A folder of safetensors checkpoints in TransformerLens key layout, one file a step.

The step is the number in the file's name (`step_0000100.safetensors`, `checkpoint_0000100.safetensors`); the files
lie in the folder or in its `checkpoints/`. The model is read from the file's own metadata, or from a TransformerLens
style `config.json` in the folder.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rllc import atomic
from rllc.config import Model
from rllc.mistake import Mistake

if TYPE_CHECKING:
    from rllc.models.attention import Weights

_NAME = re.compile(r"(?:step|checkpoint)_?(\d+)\.safetensors")


def checkpoints(folder: Path) -> dict[int, Path]:
    """The saved steps in order, each with its file.

    Raises:
        Mistake: there is no such folder, no checkpoint in it, or two files of one step.
    """
    for place in (folder / "checkpoints", folder):
        found: dict[int, Path] = {}
        for path in sorted(place.glob("*.safetensors")) if place.is_dir() else []:
            if match := _NAME.fullmatch(path.name):
                if int(match[1]) in found:
                    raise Mistake(
                        f"run: {place} has two files of step {int(match[1])}: {found[int(match[1])].name}, {path.name}."
                    )
                found[int(match[1])] = path
        if found:
            return dict(sorted(found.items()))
    raise Mistake(
        f"run: {folder} has no checkpoints named step_<number>.safetensors or checkpoint_<number>.safetensors."
    )


def describe(path: Path) -> tuple[Model, str]:
    """The model of a checkpoint and its content hash (16 hexadecimal digits), keys and shapes checked, no weights kept.

    Raises:
        Mistake: the file is truncated, not safetensors, or of another architecture.
    """
    from safetensors import safe_open

    from rllc.models import lens

    with _readable(path), safe_open(path, "np") as file:
        model = _model(path, file.metadata() or {})
        lens.load({key: _Shape(file.get_slice(key).get_shape()) for key in file.keys()}, model, str(path))  # noqa: SIM118
    with path.open("rb") as file:
        return model, hashlib.file_digest(file, "sha256").hexdigest()[:16]


def load(path: Path) -> "tuple[Model, Weights]":
    """The model and the stacked weights of a checkpoint.

    Raises:
        Mistake: the file is truncated, not safetensors, or of another architecture.
    """
    from safetensors import safe_open

    from rllc.models import lens

    with _readable(path), safe_open(path, "pt") as file:
        model = _model(path, file.metadata() or {})
        arrays = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118 - in torch's own aligned memory
        return model, lens.load(arrays, model, str(path))


def save(path: Path, model: Model, weights: "Weights") -> None:
    """Write a checkpoint, whole or not at all; equal weights give equal bytes."""
    from safetensors.torch import save as packed

    from rllc.models import lens

    metadata = {"model": json.dumps(dataclasses.asdict(model))}  # one entry: several come in random order
    state = {key: array.detach().contiguous() for key, array in lens.save(weights).items()}
    with atomic.replace(path) as file:
        file.write(packed(state, metadata))


@dataclasses.dataclass(frozen=True)
class _Shape:
    shape: list[int]


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what safetensors says of a broken file into a sentence about the file."""
    from safetensors import SafetensorError

    if not path.is_file():
        raise Mistake(f"run: {path} does not exist.")
    try:
        yield
    except SafetensorError as error:
        raise Mistake(f"run: {path} is not a whole safetensors file ({error}).") from None


def _model(path: Path, metadata: dict[str, str]) -> Model:
    if "model" in metadata:
        try:
            return Model(**json.loads(metadata["model"]))
        except (TypeError, ValueError):
            raise Mistake(f"run: {path} was not written by rllc: its model is {metadata['model']!r}.") from None
    for folder in (path.parent, path.parent.parent):
        if (folder / "config.json").is_file():
            return _from_lens_config(folder / "config.json")
    raise Mistake(f"run: {path} names no model, and there is no config.json beside it.")


def _from_lens_config(path: Path) -> Model:
    try:
        config: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Mistake(f"run: {path} is not JSON ({error}).") from None
    if not isinstance(config, dict):
        raise Mistake(f"run: {path} is not a group of named values.")
    positions = config.get("positional_embedding_type", "standard")
    legal: dict[str, Literal["shortformer", "learned"]] = {"shortformer": "shortformer", "standard": "learned"}
    if not config.get("attn_only") or config.get("normalization_type") != "LN" or positions not in legal:
        raise Mistake(
            f"run: {path} is not an attention-only model with normalization_type LN and positional_embedding_type "
            f"{' or '.join(legal)}."
        )
    sizes = ("n_layers", "n_heads", "d_model", "d_head", "n_ctx", "d_vocab")
    for name in sizes:
        if not isinstance(config.get(name), int) or config[name] < 1:
            raise Mistake(f"run: {path} gives {config.get(name)!r} for {name}, which is not a whole number above 0.")
    return Model(**{name: config[name] for name in sizes}, positions=legal[positions])

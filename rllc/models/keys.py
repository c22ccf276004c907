"""Parameter names of other programs as tables: each array of theirs is one of ours, or several, cut and turned.

A line of a table is their key, its axes, and our names; `*` stands for a layer. An axis is a word with a letter for
each factor (`rllc.models.layout`), the slowest first: "h3k e" are 3HK rows, head by head those of three arrays. All is
cutting and turning, so that what is taken apart is put together again bit for bit.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rllc.config import Model, plain
from rllc.mistake import Mistake
from rllc.models.layout import axes, shapes, sizes

if TYPE_CHECKING:
    from torch import Tensor

    from rllc.models.chains import Weights

Line = tuple[str, str, str]


class Shaped(Protocol):
    """An array, or what is known of one before it is read."""

    @property
    def shape(self) -> Sequence[int]:
        """Its axes."""


Array = TypeVar("Array", bound=Shaped)


@dataclass(frozen=True)
class Layout:
    """How a program names its parameters: a table, and the table's key for one found in a file, None for a buffer."""

    table: Sequence[Line]
    known: Callable[[str], str | None]


@dataclass(frozen=True)
class Rule:
    """One array of another program.

    Attributes:
        names: ours that it holds.
        words: its axes.
        order: the letters of our axes; a leading 3 stands for the several names.
    """

    names: tuple[str, ...]
    words: tuple[str, ...]
    order: str

    def shape(self, size: Mapping[str, int]) -> tuple[int, ...]:
        """Of their array."""
        return tuple(math.prod(size[letter] for letter in word) for word in self.words)


def check(state: Mapping[str, Shaped], layout: Layout, model: Model, origin: str) -> None:
    """See that names and shapes are those of `model`; nothing but the shape of a value is asked for.

    Raises:
        Mistake: a key is unknown, missing or of another shape; `origin` names the file.
    """
    for _ in _matched(state, layout, model, origin):
        pass


def load(state: "Mapping[str, Tensor]", layout: Layout, model: Model, origin: str) -> "Weights":
    """Our arrays as views of theirs; each value is read once.

    Raises:
        Mistake: see `check`.
    """
    size, weights = _sizes(model), dict[str, Any]()
    for rule, array in _matched(state, layout, model, origin):
        letters = "".join(rule.words)
        if letters != rule.order or len(letters) > len(rule.words):
            array = array.reshape([size[letter] for letter in letters])
            array = array.permute([letters.index(letter) for letter in rule.order])
        pieces = [array] if len(rule.names) == 1 else list(array.unbind(0))
        weights |= dict(zip(rule.names, pieces, strict=True))
    return {name: weights[name] for name in shapes(model)}


def save(weights: "Weights", layout: Layout, model: Model) -> "dict[str, Tensor]":
    """Their arrays, contiguous."""
    import torch

    state, size = {}, _sizes(model)
    for key, rule in _rules(layout.table, model).items():
        pieces = [weights[name] for name in rule.names]
        array, letters = pieces[0] if len(pieces) == 1 else torch.stack(pieces), "".join(rule.words)
        if letters != rule.order or len(letters) > len(rule.words):
            array = array.permute([rule.order.index(letter) for letter in letters]).reshape(rule.shape(size))
        state[key] = array.contiguous()
    return state


def describe(model: Model) -> str:
    """A model in words, for a refusal."""
    kind = "decoder" if model.d_mlp else "attention-only"
    return ", ".join([kind, *(f"{name} {value}" for name, value in plain(model).items())])


def _matched(state: Mapping[str, Array], layout: Layout, model: Model, origin: str) -> Iterator[tuple[Rule, Array]]:
    """Each array that holds parameters with its rule, once its name and shape are seen to be right."""
    expected, size = _rules(layout.table, model), _sizes(model)
    missing = dict.fromkeys(expected)
    for key in state:
        name = layout.known(key)
        if name is None:
            continue
        if name not in expected:
            raise Mistake(f"{origin}: holds {key!r}, which this model ({describe(model)}) does not have.")
        array, shape = state[key], expected[name].shape(size)
        if tuple(array.shape) != shape:
            raise Mistake(
                f"{origin}: {key} has shape {tuple(array.shape)}; this model ({describe(model)}) has {shape}."
            )
        missing.pop(name, None)
        yield expected[name], array
    if missing:
        first = ", ".join(sorted(missing)[:5])
        raise Mistake(f"{origin}: {first} missing ({len(missing)} in all) for {describe(model)}.")


def _rules(table: Iterable[Line], model: Model) -> dict[str, Rule]:
    """The keys of a model in another program's order, each with its rule; lines whose arrays it lacks are left out."""
    letters, found = axes(model), {}
    for key, words, names in table:
        for layer in range(model.n_layers) if "*" in key else [0]:
            ours = tuple(name.replace("*", str(layer)) for name in names.split())
            if all(name in letters for name in ours):
                order = "3" * (len(ours) > 1) + letters[ours[0]]
                found[key.replace("*", str(layer))] = Rule(ours, tuple(words.split()), order)
    return found


def _sizes(model: Model) -> dict[str, int]:
    return sizes(model) | {"3": 3}

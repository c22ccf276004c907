"""Parts of the weights: globs over the flat parameter names."""

import difflib
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rllc.config import Model
from rllc.mistake import Mistake
from rllc.models import layout

HEAD = re.compile(r"L(\d+)H(\d+)")
WORDS = {
    "heads": (r"L\d+H\d+", ""),
    "groups": (r"L\d+G\d+", ""),
    "mlps": (r"L\d+\.mlp", ""),
    "layers": (r"L\d+", "*"),
}  # patterns of the beginning of a name, and what makes a part of it
NEAREST = 5  # names that a refusal suggests


def select(
    part: str, names: Sequence[str], *, tied: Mapping[str, str] = MappingProxyType({}), key: str = "grid.parts"
) -> list[str]:
    """The names that a part stands for, in the order of `names`.

    A term is a glob (`L0H3.q`, `*.q`, `L0*`, `*`); `L1H6` is short for `L1H6.*`; a number never runs on, so `L1*`
    does not reach L10. Terms are united with `+`, and a leading `!` takes the complement of its term. `tied` gives the
    first name of an array for each further one: a term matches the array under any of its names, and the first is
    returned.

    Raises:
        Mistake: a term matches nothing (the nearest names and the legal ones are listed), or the part is empty.
    """
    chosen: set[str] = set()
    for term in part.split("+"):
        glob = term.removeprefix("!")
        pattern = re.compile(f"{_pattern(glob)}|{_pattern(f'{glob}.*')}")
        matched = {tied.get(name, name) for name in names if pattern.fullmatch(name)}
        if not matched:
            raise Mistake(f"{key}: {term!r} matches no parameter; {_nearest(glob, names)}legal: {_legal(names)}.")
        chosen |= set(names) - set(tied) - matched if term.startswith("!") else matched
    if not chosen:
        raise Mistake(f"{key}: {part!r} leaves no parameter; legal: {_legal(names)}.")
    return [name for name in names if name in chosen]


def of(model: Model, part: str) -> list[str]:
    """The flat names of a decoder that a part stands for; see `select`."""
    further = layout.tied(model)
    return select(part, [*(name for name, _, _ in layout.names(model)), *further], tied=further)


def caution(part: str, chosen: Sequence[str], names: Sequence[str]) -> str:
    """What to say of a part other than "*" that turns out to be the whole model; else empty."""
    if part == "*" or len(names) == 1 or set(chosen) != set(names):
        return ""
    return f"{part!r} is the whole model, all {len(names)} arrays; write '*' if that is meant"


def spelt(word: str, names: Sequence[str]) -> list[str]:
    """The parts that a word of WORDS stands for, each head, group of heads, MLP or layer; any other word as it is.

    Raises:
        Mistake: there is none of them.
    """
    if word not in WORDS:
        return [word]
    pattern, end = WORDS[word]
    found = dict.fromkeys(match[0] + end for name in names if (match := re.match(pattern, name)))
    if not found:
        raise Mistake(f"grid.parts: {word!r} stands for nothing in this model; legal: {_legal(names)}.")
    return list(found)


def heads(names: Sequence[str]) -> list[str]:
    """The parts that are one head each, in the order of `names`: L0H0, L0H1, …"""
    return list(dict.fromkeys(name.partition(".")[0] for name in names if HEAD.match(name)))


def place(part: str) -> tuple[int, int]:
    """Layer and head of a part that is one head; −1 for what is not: ("L1H6") → (1, 6), ("L0*") → (0, −1)."""
    if match := HEAD.fullmatch(part):
        return int(match[1]), int(match[2])
    layers = {int(found) for found in re.findall(r"L(\d+)", part)}
    return (layers.pop() if len(layers) == 1 and not part.startswith("!") else -1), -1


def _pattern(glob: str) -> str:
    """The regular expression of a glob of `*`, `?` and `[…]`; a `*` after a digit does not take digits first."""
    pieces = re.split(r"(\[[^]]+\]|\*|\?)", glob)
    out = ""
    for before, piece in zip(["", *pieces], pieces, strict=False):
        if piece == "*":
            out += r"(?!\d).*" if before[-1:].isdigit() else ".*"
        elif piece == "?":
            out += "."
        else:
            out += piece if piece.startswith("[") and piece.endswith("]") else re.escape(piece)
    return out


def _nearest(glob: str, names: Sequence[str]) -> str:
    prefixes = [".".join(name.split(".")[:depth]) for name in names for depth in range(1, name.count(".") + 2)]
    found = difflib.get_close_matches(glob, dict.fromkeys(prefixes), NEAREST)
    return f"nearest: {', '.join(found)}; " if found else ""


def _legal(names: Sequence[str]) -> str:
    found = heads(names)
    others = [name for name in names if not HEAD.match(name)]
    listed = f"heads {', '.join(found[:64])}{', …' if len(found) > 64 else ''}; " if found else ""
    return f"{listed}names {', '.join(others[:40])}{', …' if len(others) > 40 else ''}; globs over them"

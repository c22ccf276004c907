"""Which parts are clustered together, and the curves they bring.

Shape letters: N null draws, B draws of the chains, P parts, D datasets, T training steps.
"""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rllc import bootstrap, config, nulls, scaling
from rllc.mistake import Mistake, unknown
from rllc.trajectories import Trajectories, natural

Values = NDArray[np.float64]

HEAD = re.compile(r"L(\d+)H\d+")


@dataclass(frozen=True)
class Scope:
    """Curves that are clustered together, ready but for the scaling; null curves and draws of the chains beside them.

    `null_NPDT` has an array for each kind of null; `draw_BPDT` is empty where nothing is known of the errors.
    """

    name: str
    parts: tuple[str, ...]
    value_PDT: Values
    error_PDT: Values
    null_NPDT: dict[str, Values]
    draw_BPDT: Values


def members(parts: Sequence[str], *, per_layer: bool) -> dict[str, tuple[str, ...]]:
    """Say which parts are clustered together: heads (by layer, or all); if there are none, all parts."""
    heads = [part for part in parts if HEAD.match(part)]
    if not heads:
        return {"all": tuple(sorted(parts, key=natural))}
    of_scope: dict[str, list[str]] = {}
    for part in sorted(heads, key=natural):
        layer = HEAD.match(part)
        of_scope.setdefault(f"L{layer[1]}" if per_layer and layer else "all", []).append(part)
    return {name: tuple(inside) for name, inside in of_scope.items()}


def left_out(parts: Sequence[str]) -> tuple[str, ...]:
    """Name the parts that are not clustered: those that are no heads, if there are heads."""
    heads = [part for part in parts if HEAD.match(part)]
    return tuple(part for part in parts if part not in heads) if heads else ()


def tried(options: config.Cluster) -> list[int]:
    """All k that are tried, ascending: the range, and k if it is given."""
    return sorted({*options.k_range, *([] if options.k is None else [options.k])})


def check(options: config.Cluster, parts: Sequence[str]) -> None:
    """Refuse options that these parts cannot be clustered with, before any work.

    Raises:
        Mistake: names the key, the value and what is possible.
    """
    for key in ("method", "scaling"):
        listed, primary = getattr(options, f"{key}s"), getattr(options.primary, key)
        if primary not in listed:
            raise unknown(f"cluster.primary.{key}", primary, listed)
    for key, least in (("n_init", 1), ("null_draws", 1), ("draws", 0), ("seed", 0)):
        if getattr(options, key) < least:
            raise Mistake(f"cluster.{key}: {getattr(options, key)} has to be {least} or more.")
    if not options.k_range:
        raise Mistake("cluster.k_range: it is empty, but has to name the k to try, as [2,3,4].")
    for k in tried(options):
        key = "k" if k == options.k else "k_range"
        if k < 2:
            raise Mistake(f"cluster.{key}: {k} has to be 2 or more.")
        for scope, inside in members(parts, per_layer=options.per_layer).items():
            if k > len(inside):
                raise Mistake(
                    f"cluster.{key}: {k} is more than the {len(inside)} parts of scope {scope}; take at most that, "
                    f"or change cluster.per_layer."
                )


def fitting(options: config.Cluster, parts: Sequence[str]) -> config.Cluster | None:
    """The options with the k of the range that the smallest scope can carry; None where nothing can be grouped.

    A silhouette needs fewer clusters than parts. A k that was given is left as it is, for `check` to judge.
    """
    smallest = min(len(inside) for inside in members(parts, per_layer=options.per_layer).values())
    k_range = [k for k in options.k_range if k < smallest]
    if not k_range and options.k is None:
        return None
    return dataclasses.replace(options, k_range=k_range or [options.k or 0])


def too_many(options: config.Cluster, parts: Sequence[str]) -> str:
    """One sentence on the k of the range that `fitting` leaves out; empty where it leaves out none."""
    name, inside = min(members(parts, per_layer=options.per_layer).items(), key=lambda scope: len(scope[1]))
    out = [k for k in options.k_range if k >= len(inside) and k != options.k]
    count = "1 part" if len(inside) == 1 else f"{len(inside)} parts"
    return f"cluster.k_range: {out} left out, for scope {name} has {count} and a k has to be below." if out else ""


def cut(curves: Trajectories, options: config.Cluster) -> list[Scope]:
    """Cut the curves into scopes, move them to the even grid if `logx`, with their draws; draw null curves for each."""
    value_PDT = scaling.resample(curves.steps, curves.value_PDT) if options.logx else curves.value_PDT
    draw_BPDT = bootstrap.draws(curves, options.draws, seed=options.seed)
    draw_BPDT = scaling.resample(curves.steps, draw_BPDT) if options.logx and len(draw_BPDT) else draw_BPDT
    pieces = []
    for name, inside in members(curves.parts, per_layer=options.per_layer).items():
        index = [curves.parts.index(part) for part in inside]
        null_NPDT = nulls.draw(value_PDT[index], options.null_draws, options.seed)
        pieces.append(Scope(name, inside, value_PDT[index], curves.error_PDT[index], null_NPDT, draw_BPDT[:, index]))
    return pieces

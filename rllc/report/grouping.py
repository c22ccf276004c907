"""The tables of the clustering stage, read back."""

import json
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rllc import csv_tables
from rllc.mistake import Mistake

Way = tuple[str, str, str, str, str]  # run, scope, method, scaling, k


@dataclass(frozen=True)
class Agreement:
    """One line of agreement.csv: a clustering against the types of heads; NaN, with a reason, where undefined."""

    run: str
    scope: str
    method: str
    scaling: str
    k: str
    ari: float
    ami: float
    p: float
    primary: bool
    reason: str


@dataclass(frozen=True)
class Stability:
    """Jaccard stability of one group over draws of the chains, with its usual reading; NaN without draws."""

    size: int
    jaccard: float
    reading: str
    draws: int


@dataclass(frozen=True)
class Support:
    """How often, over all clusterings, a part is with its own consensus group, and with the nearest other."""

    group: int
    share: float
    rival: int
    rival_share: float


@dataclass(frozen=True)
class Groups:
    """What clustering found.

    Attributes:
        primary: method and scaling that were named before looking.
        chosen: k and where it comes from (given, chosen, first), by run and scope.
        labels: label of each part, by run, scope, method, scaling and k; failed clusterings are not there.
        scores: an index, its null's median and 95 % quantile, by index (silhouette, jaccard) and the same.
        stability: of each group, by the same as labels.
        shares: how often two parts are together at the main k over all clusterings, by run and scope.
        support: of each part at the main k, by run and scope.
        types: type of each head, by run; empty without attention scores.
        agreement: every line of agreement.csv.
        between: ARI of two clusterings, each as "method/scaling", at the main k, by run and scope.
        matches: lines of matches.csv, groups of two runs that belong together.
        transfers: lines of transfer.csv, how well the groups of one run foretell another's.
        settings: options, filled cells, parts left out and failed clusterings.
    """

    primary: tuple[str, str]
    chosen: dict[tuple[str, str], tuple[int, str]]
    labels: dict[Way, dict[str, int]]
    scores: dict[str, dict[Way, tuple[float, float, float]]]
    stability: dict[Way, tuple[Stability, ...]]
    shares: dict[tuple[str, str], dict[tuple[str, str], float]]
    support: dict[tuple[str, str], dict[str, Support]]
    types: dict[str, dict[str, str]]
    agreement: tuple[Agreement, ...]
    between: dict[tuple[str, str], dict[tuple[str, str], float]]
    matches: tuple[dict[str, str], ...]
    transfers: tuple[dict[str, str], ...]
    settings: dict[str, Any]

    @property
    def runs(self) -> list[str]:
        """Runs that were clustered, in order."""
        return list(dict.fromkeys(run for run, _ in self.chosen))

    def scopes(self, run: str) -> list[str]:
        """Scopes of a run, in the order in which they were clustered."""
        return [scope for name, scope in self.chosen if name == run]

    def main(self, run: str, scope: str, method: str, scaling: str) -> dict[str, int]:
        """Labels at the scope's main k; empty if that clustering failed."""
        return self.labels.get((run, scope, method, scaling, str(self.chosen[run, scope][0])), {})

    def supports(self, run: str) -> dict[str, Support]:
        """Support of each part of a run."""
        return {
            part: one for (name, _), of_part in self.support.items() if name == run for part, one in of_part.items()
        }

    def headline(self, run: str, scope: str) -> str | None:
        """Name the k of the main comparison of a run (or "all") and a scope (or "mean"), as agreement.csv has it."""
        named = [line.k for line in self.agreement if (line.run, line.scope) == (run, scope) and line.primary]
        return named[0] if named else None

    def agreed(self, run: str, scope: str) -> list[Agreement]:
        """List the comparisons of all methods and scalings at the main k."""
        k = self.headline(run, scope)
        return [line for line in self.agreement if (line.run, line.scope, line.k) == (run, scope, k)]


def read(folder: Path) -> Groups | None:
    """Read a folder clusters/; None when clustering was not done.

    Raises:
        Mistake: a table lacks a column or holds something else than numbers where they belong.
    """
    if not (folder / "config.json").is_file() or not (folder / "labels.csv").is_file():
        return None
    try:
        return _read(folder)
    except (KeyError, ValueError, TypeError) as error:
        raise Mistake(f"{folder}: its tables are not those of this version ({error}); cluster again.") from error


def _read(folder: Path) -> Groups:
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    primary = settings["options"]["primary"]
    labels: dict[Way, dict[str, int]] = defaultdict(dict)
    for line in csv_tables.read(folder / "labels.csv"):
        labels[_way(line)][line["part"]] = int(line["label"])
    types: dict[str, dict[str, str]] = defaultdict(dict)
    for line in csv_tables.read(folder / "types.csv"):
        types[line["run"]][line["part"]] = line["type"]
    between: dict[tuple[str, str], dict[tuple[str, str], float]] = defaultdict(dict)
    for line in csv_tables.read(folder / "between.csv"):
        between[line["run"], line["scope"]][line["a"], line["b"]] = _number(line["ari"])
    return Groups(
        primary=(primary["method"], primary["scaling"]),
        chosen={(choice["run"], choice["scope"]): (int(choice["k"]), choice["how"]) for choice in settings["k"]},
        labels=dict(labels),
        scores=_scores(folder),
        stability=_stability(folder),
        shares=_shares(folder),
        support=_support(folder),
        types=dict(types),
        agreement=tuple(_agreement(line) for line in csv_tables.read(folder / "agreement.csv")),
        between=dict(between),
        matches=tuple(csv_tables.read(folder / "matches.csv")),
        transfers=tuple(csv_tables.read(folder / "transfer.csv")),
        settings=settings,
    )


def _scores(folder: Path) -> dict[str, dict[Way, tuple[float, float, float]]]:
    found: dict[str, dict[Way, tuple[float, float, float]]] = {"silhouette": {}, "jaccard": {}}
    for line in csv_tables.read(folder / "scores.csv"):
        numbers = _number(line["value"]), _number(line["null_median"]), _number(line["null_q95"])
        found[line["score"]][_way(line)] = numbers
    return found


def _stability(folder: Path) -> dict[Way, tuple[Stability, ...]]:
    found: dict[Way, list[Stability]] = defaultdict(list)
    for line in csv_tables.read(folder / "stability.csv"):
        one = Stability(int(line["size"]), _number(line["jaccard"]), line["reading"], int(line["draws"]))
        found[_way(line)].append(one)
    return {way: tuple(of_way) for way, of_way in found.items()}


def _shares(folder: Path) -> dict[tuple[str, str], dict[tuple[str, str], float]]:
    found: dict[tuple[str, str], dict[tuple[str, str], float]] = defaultdict(dict)
    for line in csv_tables.read(folder / "consensus.csv"):
        found[line["run"], line["scope"]][line["a"], line["b"]] = float(line["share"])
    return dict(found)


def _support(folder: Path) -> dict[tuple[str, str], dict[str, Support]]:
    found: dict[tuple[str, str], dict[str, Support]] = defaultdict(dict)
    for line in csv_tables.read(folder / "support.csv"):
        numbers = float(line["support"]), int(line["rival"]), _number(line["rival_support"])
        found[line["run"], line["scope"]][line["part"]] = Support(int(line["group"]), *numbers)
    return dict(found)


def _agreement(line: dict[str, str]) -> Agreement:
    ari, ami, p = (_number(line[name]) for name in ("ari", "ami", "p"))
    return Agreement(*_way(line), ari, ami, p, primary=line["primary"] == "true", reason=line.get("reason") or "")


def _way(line: dict[str, str]) -> Way:
    return line["run"], line["scope"], line["method"], line["scaling"], line["k"]


def _number(field: str) -> float:
    return float(field) if field else math.nan

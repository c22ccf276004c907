"""What type a head is, from its attention scores at the last step."""

import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from rllc import tables
from rllc.scopes import HEAD
from rllc.trajectories import natural

Scores = dict[str, dict[str, dict[str, float]]]  # run → part → score

SCORES = ("prev_token", "current_token", "prefix")
# A head is named after one token when that token gets the majority of its attention, on average over positions.
MAJORITY = 0.5
# The prefix score counts only positions whose token came before, and even a finished induction head of a small model
# leaves half of its attention at the first token; chance is one over the context length, far below this.
PREFIX = 0.3


def last_scores(path: Path) -> Scores:
    """Read the scores of heads at the last step of their run, averaged over datasets and seeds.

    Parts that lack a score at that step are left out; a table without a column metric has none.
    """
    rows = [row for row in tables.read(path) if row.metric in SCORES]
    last: dict[str, int] = {}
    for row in rows:
        last[row.run] = max(row.step, last.get(row.run, 0))
    values: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in rows:
        if row.step == last[row.run] and math.isfinite(row.value):
            values[row.run][row.part][row.metric].append(row.value)
    return {
        run: {
            part: {name: sum(values[run][part][name]) / len(values[run][part][name]) for name in SCORES}
            for part in sorted(values[run], key=natural)
            if all(name in values[run][part] for name in SCORES)
        }
        for run in sorted(values, key=natural)
    }


def head_type(part: str, scores: Mapping[str, float]) -> str:
    """Name a head by what it attends to: the first that holds of

    induction (prefix ≥ PREFIX, not in layer 0, where nothing can be composed with), previous-token (prev_token ≥
    MAJORITY), current-token (current_token ≥ MAJORITY), other.
    """
    layer = HEAD.match(part)
    if scores["prefix"] >= PREFIX and not (layer and int(layer[1]) == 0):
        return "induction"
    if scores["prev_token"] >= MAJORITY:
        return "previous-token"
    return "current-token" if scores["current_token"] >= MAJORITY else "other"


def types(scores: Scores) -> dict[str, dict[str, str]]:
    """Name every head of every run."""
    return {run: {part: head_type(part, of_part) for part, of_part in parts.items()} for run, parts in scores.items()}

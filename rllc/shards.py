"""A plan cut into shards: contiguous groups of what is missing, of about equal cost, that load few checkpoints."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence, Set
from itertools import accumulate, pairwise

from rllc.plan import Cell

SLACK = 1 / 8  # of a shard's mean cost: how far a cut may move to where the inputs change


def cut(cells: Iterable[Cell], count: int, done: Set[str] = frozenset()) -> list[list[Cell]]:
    """At most `count` shards of the cells whose keys are not in `done`, in the order of the plan, none of them empty.

    A cut that would divide a checkpoint moves to its nearest end within SLACK of a shard's mean cost, else to the
    nearest end of a dataset's cells within that, else it stays: so a shard costs at most 1 + 2 SLACK of the mean, and
    a cell more. A worker loads a checkpoint, and computes the reference of a dataset, once for each shard.
    """
    left = [cell for cell in cells if cell.task.key not in done]
    cost = [0.0, *accumulate(cell.cost for cell in left)]
    mean = cost[-1] / count
    inputs = [(cell.checkpoint, cell.rows) for cell in left]
    changes = [place for place, (one, other) in enumerate(pairwise(inputs), 1) if one != other]
    ends = [[place for place in changes if inputs[place - 1][0] != inputs[place][0]], changes, range(len(cost))]
    cuts = {0, len(left)}
    for shard in range(1, count):
        cuts.add(_nearest(ends, cost, shard * mean, SLACK * mean))
    return [left[start:stop] for start, stop in pairwise(sorted(cuts))]


def _nearest(ends: Iterable[Sequence[int]], cost: Sequence[float], wanted: float, slack: float) -> int:
    """The place whose cost before it is nearest to the wanted, of the first kind of place with one in reach."""
    found = 0
    for places in ends:
        after = bisect_left(places, wanted, key=cost.__getitem__)
        near = places[max(after - 1, 0) : after + 1]
        if near:
            found = min(near, key=lambda place: abs(cost[place] - wanted))
            if abs(cost[found] - wanted) <= slack:
                return found
    return found

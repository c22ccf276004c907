"""Whether what is asked of a report can be drawn: known from the grid before any work, and from the curves after it."""

from collections.abc import Collection, Mapping, Sequence

from rllc.mistake import Mistake, unknown


def traces(part: str | None, parts: Collection[str]) -> None:
    """Check the part whose loss traces are drawn.

    Raises:
        Mistake: it is none of the parts.
    """
    if part is not None and part not in parts:
        raise unknown("report.traces", part, sorted(parts))


def stages(ends: Sequence[int] | None, steps: Mapping[str, Collection[int]]) -> None:
    """Check the training steps at which stages end by hand, against the steps of each run.

    Raises:
        Mistake: one is not inside of a run, or stands there twice.
    """
    for run, known in steps.items():
        first, last = min(known), max(known)
        for step in ends or []:
            if not first < step < last:
                raise Mistake(f"report.stages: {step} is not between the steps {first} and {last} of run {run}.")
    if len(set(ends or [])) < len(ends or []):
        raise Mistake(f"report.stages: {ends} has a step twice.")

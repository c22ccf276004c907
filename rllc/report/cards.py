"""Cluster cards: for each group its members, how sure they are, what they do, and the median curve on each dataset.

Shape letters: P parts, D datasets, T training steps.
"""

import functools
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from rllc.report import contexts, looks, shapes, style, tables
from rllc.report.curves import short
from rllc.report.estimates import Curves
from rllc.report.picture import Picture, name
from rllc.report.source import Source

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 2  # datasets shown at most
TEXT = 4.1  # inches of the text of a card
LETTERS = 62  # of a line of it
LINE, HEADING = 0.156, 0.22  # inches of a line, and of the heading above them
HEIGHT = 1.9  # inches of a panel at least
WRAPPED = 4  # lines at most that one thing to say takes
TOP = 2  # contexts of each dataset
MEASURED = {  # what stands on one line, with its unit
    "attention (share)": ("prev_token", "current_token", "first_token", "prefix", "brackets"),
    "rise of the loss without it (nats per token)": ("zero_ablation", "mean_ablation", "resample_ablation"),
    "tokens of 1,000 that need it": (
        "induction_tokens", "bracket_tokens", "ngram_tokens", "skip_ngram_tokens", "other_tokens",
    ),
    "different n-grams that need it": ("ngrams", "skip_ngrams"),
    "curvature": ("hessian_trace", "hessian_xtrace", "fisher_trace", "hessian_rank"),
}  # fmt: skip


def pictures(source: Source) -> Iterator[Picture]:
    """Give a figure for each run and scope with a primary clustering."""
    groups = source.groups
    if groups is None:
        return
    for run, scope in groups.chosen:
        labels = groups.main(run, scope, *groups.primary)
        if not labels or run not in source.curves:
            continue
        caption = (
            "A card for each group of the primary clustering. Left: members, * the medoid, in brackets the share of "
            "all clusterings in which a head is with its consensus group; Jaccard stability with its usual reading; "
            "types; over the members the median of what else was measured, at the last step, on each dataset; and, "
            "where token losses were kept, the text at which the loss rose most (nats) when a member was moved, the "
            "token in ⟦⟧ being the one that is predicted. Right: "
            f"{source.symbol} of the group on each dataset, median and the range from quarter to three quarters of the "
            "members (of one member, its 95 % interval); thin and grey: all other heads of the scope."
            f"{source.shading(run)}"
        )
        title = f"Cards of the groups of {scope}, run {run}"
        draw = functools.partial(cards, source, run, scope)
        yield Picture("Groups", name("cards", run, scope), title, caption, draw)


def cards(source: Source, run: str, scope: str) -> "Figure":
    """Draw a row for each group."""
    assert source.groups is not None
    groups, curves = source.groups, source.curves[run]
    labels = groups.main(run, scope, *groups.primary)
    columns, texts = min(len(curves.datasets), COLUMNS), _texts(source, run, scope, labels)
    width = (style.WIDTH - TEXT) / columns
    lines = max(body.count("\n") + 1 for _, body in texts.values())
    first = style.Box(width - 0.9, max(HEIGHT, HEADING + LINE * lines - 0.5), left=0.72, right=0.18)
    k = max(labels.values()) + 1
    title = f"Groups of {scope}, k = {k} · run {style.shown(run)}"
    figure, panels = style.panels(k * columns, columns, first, title=title)
    _shift(figure, panels)
    for n, axes in enumerate(panels):
        label, d = divmod(n, columns)
        _panel(axes, curves, labels, (label, d))
        axes.set_ylabel(source.symbol)
        style.shade(axes, source.spans(run))
        if d == 0:
            place = axes.get_position()
            heading, body = texts[label]
            look = looks.look(label)
            figure.text(0.012, place.y1, heading, va="top", fontsize=10, fontweight="bold", color=look.colour)
            figure.text(0.012, place.y1 - HEADING / figure.get_figheight(), body, va="top", fontsize=8, linespacing=1.4)
    return figure


def _shift(figure: "Figure", panels: "list[Axes]") -> None:
    """Make room for the texts at the left."""
    old, new = figure.get_figwidth(), figure.get_figwidth() + TEXT
    figure.set_size_inches(new, figure.get_figheight())
    for axes in panels:
        place = axes.get_position()
        axes.set_position(((place.x0 * old + TEXT) / new, place.y0, place.width * old / new, place.height))
    for text in figure.texts:
        text.set_x(text.get_position()[0] * old / new)


def _texts(source: Source, run: str, scope: str, labels: Mapping[str, int]) -> dict[int, tuple[str, str]]:
    """Write heading and body of each card."""
    groups = source.groups
    assert groups is not None
    support, types = groups.support.get((run, scope), {}), source.types(run)
    stability = groups.stability.get((run, scope, *groups.primary, str(groups.chosen[run, scope][0])), ())
    medoid = shapes.medoids(groups, source.clustered[run], labels) if run in source.clustered else {}
    found = {}
    for label in sorted(set(labels.values())):
        inside = [part for part, of in labels.items() if of == label]
        named = [
            f"{style.shown(short(part, scope))}{'*' * (medoid.get(label) == part)}"
            + (f"\N{NO-BREAK SPACE}({support[part].share:.2f})" if part in support else "")
            for part in inside
        ]
        lines = [", ".join(named)]
        if label < len(stability) and np.isfinite(stability[label].jaccard):
            lines.append(f"stability {stability[label].jaccard:.2f}: {stability[label].reading}")
        if types:
            counts = Counter(types.get(part, "unknown") for part in inside).most_common()
            lines.append("types: " + ", ".join(f"{count} {kind}" for kind, count in counts))
        lines += [*_measured(source, run, inside), *_contexts(source, run, medoid.get(label, inside[0]), inside)]
        body = "\n".join(piece for line in lines for piece in textwrap.wrap(line, LETTERS)[:WRAPPED])
        found[label] = f"group {label}, {len(inside)} of {len(labels)}", body
    return found


def _measured(source: Source, run: str, inside: list[str]) -> list[str]:
    """Tell the median over some heads of all else that was measured of them, on each dataset at the last step."""
    known = {name: of_run[run] for name, of_run in {**source.scores, **source.others}.items() if run in of_run}
    told = {name: text for name, curves in known.items() if (text := _median(curves, inside))}
    rest = tuple(name for name in told if not any(name in names for names in MEASURED.values()))
    return [
        f"{what}: {'; '.join(told[name] for name in names if name in told)}"
        for what, names in {**MEASURED, "else": rest}.items()
        if not told.keys().isdisjoint(names)
    ]


def _median(curves: Curves, inside: list[str]) -> str:
    places = [curves.parts.index(part) for part in inside if part in curves.parts]
    if not places:
        return ""
    last_D = [value_P[np.isfinite(value_P)] for value_P in curves.value_PDT[places, :, -1].T]
    each = " / ".join(tables.number(float(np.median(known))) if len(known) else "–" for known in last_D)
    return f"{curves.metric} {each}".replace(" ", "\N{NO-BREAK SPACE}")


def _contexts(source: Source, run: str, first: str, inside: list[str]) -> list[str]:
    """Tell the text at which the loss rose most of the medoid, or of another member if nothing was kept of it."""
    kept = source.contexts.get(run, {})
    part = next((part for part in (first, *inside) if part in kept), None)
    if part is None:
        return []
    return [f"{part}, {style.printable(text)}" for n, text in enumerate(kept[part]) if n % contexts.SHOWN < TOP]


def _panel(axes: "Axes", curves: Curves, labels: Mapping[str, int], which: tuple[int, int]) -> None:
    """Draw one group on one dataset, before all others."""
    label, d = which
    steps_T, look = np.array(curves.steps, dtype=np.float64), looks.look(label)
    parts = [part for part in labels if part in curves.parts]
    inside = [curves.parts.index(part) for part in parts if labels[part] == label]
    for part in parts:
        if labels[part] != label:
            axes.plot(steps_T, curves.value_PDT[curves.parts.index(part), d], color="#BBBBBB", lw=0.6, label=part)
    value_PT = curves.value_PDT[inside, d]
    if len(inside) == 1:
        style.curve(axes, steps_T, value_PT[0], curves.half_PDT[inside[0], d], look, label="median")
    else:
        middle_T = np.array([np.median(x[np.isfinite(x)]) if np.isfinite(x).any() else np.nan for x in value_PT.T])
        low_T, high_T = np.nanquantile(np.where(np.isnan(middle_T), 0, value_PT), [0.25, 0.75], axis=0)
        axes.fill_between(steps_T, low_T, high_T, color=look.colour, alpha=0.25, lw=0)
        axes.plot(steps_T, middle_T, color=look.colour, linestyle=look.line, marker=look.marker, ms=2.6, label="median")
    style.step_axis(axes, curves.steps)
    shown = [curves.parts.index(part) for part in parts]
    axes.set_ylim(style.limits(curves.value_PDT[shown], np.zeros_like(curves.value_PDT[shown])))
    axes.set_title(style.shown(curves.datasets[d]))

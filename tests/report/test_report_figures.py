import csv
import dataclasses
import json
import math

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from pyarrow import parquet
from scipy import stats

from rllc.mistake import Mistake
from rllc.report import (
    agreement,
    cards,
    consensus,
    contents,
    contexts,
    curves,
    ends,
    looks,
    members,
    overview,
    pairs,
    scores,
    shapes,
    silhouette,
    source,
    stability,
    stages,
    style,
    traces,
    training,
)

RUN = "stdlib-s0"

pytestmark = pytest.mark.usefixtures("styled")


def line(axes, label):
    (found,) = [one for one in axes.lines if one.get_label() == label]
    return np.asarray(found.get_xdata(), float), np.asarray(found.get_ydata(), float)


def bands(axes):
    """Give the outline of each band as a set of points."""
    return [
        {(round(x, 9), round(y, 9)) for x, y in path.vertices}
        for one in axes.collections
        if isinstance(one, PolyCollection)
        for path in one.get_paths()
    ]


def texts(axes):
    return [text.get_text() for text in axes.texts]


def panel(figure, title):
    (found,) = [axes for axes in figure.axes if axes.get_title(loc="left") == title]
    return found


def cells(folder, **wanted):
    rows = parquet.read_table(folder / "estimates.parquet").to_pylist()
    found = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    return sorted(found, key=lambda row: row["step"])


def test_lines_are_the_table_and_bands_are_student_intervals(clustered):
    figure = curves.heads(source.read(clustered), RUN)
    axes = panel(figure, "L1 · stdlib_mix")
    assert axes.get_ylabel() == "λ̂ (nats)"
    assert axes.get_xlabel() == "training step (log scale; linear below 100)"
    for part in ("L1H0", "L1H3"):
        rows = cells(clustered, metric="llc", part=part, dataset="stdlib_mix")
        x_T, y_T = line(axes, part)
        assert x_T.tolist() == [row["step"] for row in rows]
        assert y_T.tolist() == [row["value"] for row in rows]
        intervals = [stats.t.interval(0.95, 3, loc=row["value"], scale=row["error"]) for row in rows]
        corners = {(row["step"], round(y, 9)) for row, pair in zip(rows, intervals, strict=True) for y in pair}
        assert any(corners <= outline for outline in bands(axes))


def test_heads_are_coloured_by_their_group_and_named_at_the_end(clustered):
    found = source.read(clustered)
    axes = panel(curves.heads(found, RUN), "L1 · stdlib_code")
    labels = found.groups.main(RUN, "L1", *found.groups.primary)
    for part, label in labels.items():
        (drawn,) = [one for one in axes.lines if one.get_label() == part]
        assert drawn.get_color() == looks.look(label).colour
        assert drawn.get_marker() == looks.look(label).marker
    assert sorted(texts(axes)) == ["H0", "H1", "H2", "H3"]


def test_panels_of_a_layer_share_the_vertical_axis(clustered):
    figure = curves.heads(source.read(clustered), RUN)
    of_layer = {
        layer: {axes.get_ylim() for axes in figure.axes if axes.get_title(loc="left").startswith(layer)}
        for layer in ("L0", "L1")
    }
    assert [len(limits) for limits in of_layer.values()] == [1, 1]
    assert of_layer["L0"] != of_layer["L1"]


def test_holes_are_gaps_and_a_lonely_point_keeps_its_marker_and_bar(sweep):
    health = {("L0H1", "stdlib_code", step): ("diverged", "not finite") for step in (300, 600)}
    folder = sweep(health=health)
    axes = panel(curves.heads(source.read(folder), RUN), "L0 · stdlib_code")
    x_T, y_T = line(axes, "L0H1")
    assert x_T[np.isnan(y_T)].tolist() == [300, 600]
    (row,) = cells(folder, metric="llc", part="L0H1", dataset="stdlib_code", step=400)
    half = row["error"] * stats.t.ppf(0.975, 3)
    bars = [one.get_ydata() for one in axes.lines if list(one.get_xdata()) == [400, 400]]
    assert len(bars) == 1
    np.testing.assert_allclose(bars[0], [row["value"] - half, row["value"] + half])


def test_the_name_stands_at_the_last_known_point(sweep):
    folder = sweep(absent=frozenset({("L0H1", "stdlib_code", step) for step in (1400, 1600)}))
    axes = panel(curves.heads(source.read(folder), RUN), "L0 · stdlib_code")
    (row,) = cells(folder, metric="llc", part="L0H1", dataset="stdlib_code", step=1200)
    assert {text.get_text(): text.xy for text in axes.texts}["H1"] == (1200, row["value"])


def test_parts_that_are_no_heads_have_a_figure_of_their_own(sweep):
    found = source.read(sweep(others=("L0*", "*")))
    names = [picture.name for picture in contents.pictures(found)]
    assert f"parts-{RUN}" in names
    axes = panel(curves.others(found, RUN), "stdlib_mix")
    assert sorted(texts(axes)) == ["*", "L0*"]
    assert not [one for axes in curves.heads(found, RUN).axes for one in axes.lines if one.get_label() == "*"]


def test_without_step_0_the_axis_is_logarithmic_throughout(sweep):
    axes = curves.heads(source.read(sweep(steps=(1, 10, 100))), RUN).axes[0]
    assert axes.get_xscale() == "log"
    assert axes.get_xlabel() == "training step (log scale)"


def test_pairs_draw_one_dataset_against_the_other(clustered):
    axes = panel(pairs.pairs(source.read(clustered), RUN), "L0")
    x_T, y_T = line(axes, "L0H2")
    for drawn_T, dataset in ((x_T, "stdlib_code"), (y_T, "stdlib_mix")):
        assert drawn_T.tolist() == [
            row["value"] for row in cells(clustered, metric="llc", part="L0H2", dataset=dataset)
        ]
    low_T, high_T = line(axes, "diagonal")
    assert low_T.tolist() == high_T.tolist()
    marks = [one for one in axes.lines if one.get_markersize() == 5.5]
    assert [x_T[-1], y_T[-1]] in [[one.get_xdata()[0], one.get_ydata()[0]] for one in marks]


def test_one_dataset_has_no_pairs(sweep):
    found = source.read(sweep(datasets=("pile",)))
    assert not [picture for picture in contents.pictures(found) if picture.name.startswith("pairs")]


def test_group_means_are_means_of_their_members(clustered):
    found = source.read(clustered)
    (picture,) = [one for one in members.pictures(found) if one.name.endswith("L1")]
    axes = panel(picture.draw(), "kmeans (primary) · stdlib_code")
    labels = found.groups.main(RUN, "L1", "kmeans", "standardize")
    for label in set(labels.values()):
        inside = [line(axes, part)[1] for part in labels if labels[part] == label]
        np.testing.assert_allclose(line(axes, f"group {label}")[1], np.mean(inside, axis=0))


def test_nothing_is_cut_off_and_no_two_legends_overlap(sweep, cluster):
    folder = sweep(heads=6)
    cluster(folder, k=5, k_range=[5])
    for picture in contents.pictures(source.read(folder)):
        figure = picture.draw()
        FigureCanvasAgg(figure).draw()
        drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
        assert 0 <= drawn.x0 <= drawn.x1 <= width, picture.name
        assert 0 <= drawn.y0 <= drawn.y1 <= height, picture.name
        legends = [found.get_window_extent() for axes in figure.axes if (found := axes.get_legend())]
        for n, one in enumerate(legends):
            assert not any(one.overlaps(other) for other in legends[:n]), picture.name


def test_members_are_standardised_over_both_datasets(clustered):
    (picture,) = [one for one in members.pictures(source.read(clustered)) if one.name.endswith("L0")]
    figure = picture.draw()
    both = [
        line(panel(figure, f"kmeans (primary) · {dataset}"), "L0H0")[1] for dataset in ("stdlib_code", "stdlib_mix")
    ]
    assert np.mean(both) == pytest.approx(0, abs=1e-9)
    assert np.std(both) == pytest.approx(1, rel=1e-9)


def test_silhouette_and_its_null_are_those_of_the_table(clustered):
    figure = silhouette.silhouette(source.read(clustered).groups, RUN)
    with (clustered / "clusters" / "scores.csv").open() as file:
        wanted = [
            one
            for one in csv.DictReader(file)
            if (one["scope"], one["method"], one["scaling"]) == ("L1", "kmeans", "standardize")
            and one["score"] == "silhouette"
        ]
    (axes,) = [axes for axes in figure.axes if axes.get_title(loc="left").startswith("L1")]
    x_K, y_K = line(axes, "silhouette")
    assert x_K.tolist() == [int(one["k"]) for one in wanted]
    assert y_K.tolist() == [float(one["value"]) for one in wanted]
    assert line(axes, "null median")[1].tolist() == [float(one["null_median"]) for one in wanted]


def test_matrix_between_clusterings_is_symmetric_and_that_of_the_table(clustered):
    found = source.read(clustered)
    axes = agreement.between(found.groups, RUN).axes[0]
    matrix_MM = axes.collections[0].get_array()
    np.testing.assert_array_equal(matrix_MM, matrix_MM.T)
    np.testing.assert_array_equal(np.diag(matrix_MM), 1)
    names = [text.get_text().removeprefix("* ") for text in axes.get_yticklabels()]
    for (a, b), ari in found.groups.between[RUN, "L0"].items():
        assert matrix_MM[names.index(a), names.index(b)] == ari


def test_agreement_dots_are_those_of_the_table_and_the_primary_is_marked(clustered):
    found = source.read(clustered)
    figure = agreement.agreement(found.groups, RUN)
    axes = figure.axes[1]
    agreed = found.groups.agreed(RUN, "L1")
    assert line(axes, "ARI")[0].tolist() == [one.ari for one in agreed]
    assert line(axes, "AMI")[0].tolist() == [one.ami for one in agreed]
    bold = [text.get_text() for text in axes.get_yticklabels() if text.get_fontweight() == "bold"]
    assert bold == ["* kmeans/standardize"]


def test_over_runs_each_run_has_a_dot_and_the_mean_a_bar(sweep, cluster):
    folder = sweep(runs=("a", "b", "c"), steps=(0, 100, 400, 1000, 1600))
    cluster(folder, methods=["kmeans", "ward"], k=2, k_range=[2])
    groups = source.read(folder).groups
    axes = agreement.over_runs(groups).axes[1]
    ways = [text.get_text().removeprefix("* ") for text in axes.get_yticklabels()]
    with (folder / "clusters" / "agreement.csv").open() as file:
        ari = {
            (one["run"], f"{one['method']}/{one['scaling']}"): float(one["ari"])
            for one in csv.DictReader(file)
            if one["scope"] == "L1" and one["ari"]
        }
    for run in ("a", "b", "c"):
        assert line(axes, run)[0].tolist() == [ari[run, way] for way in ways]
    np.testing.assert_allclose(
        line(axes, "mean")[0], [np.mean([ari[run, way] for run in "abc"]) for way in ways], atol=1e-5
    )


def test_overview_colours_heads_of_every_run_by_type(sweep, cluster):
    folder = sweep(runs=("a", "b"), steps=(0, 400, 1600))
    cluster(folder, methods=["kmeans"], k=2, k_range=[2])
    figure = overview.overview(source.read(folder))
    axes = panel(figure, "b · L1 · stdlib_mix")
    (drawn,) = [one for one in axes.lines if one.get_label() == "L1H3"]
    assert drawn.get_color() == looks.of_type("induction").colour
    assert drawn.get_ydata().tolist() == [
        row["value"] for row in cells(folder, run="b", part="L1H3", dataset="stdlib_mix", metric="llc")
    ]


def test_scores_are_averaged_over_datasets(clustered):
    figure = scores.scores(source.read(clustered), RUN)
    _, y_T = line(panel(figure, "L0 · previous token"), "L0H0")
    both = [
        [row["value"] for row in cells(clustered, metric="prev_token", part="L0H0", dataset=dataset)]
        for dataset in ("stdlib_code", "stdlib_mix")
    ]
    np.testing.assert_allclose(y_T, np.mean(both, axis=0))


def test_traces_show_nats_the_burn_in_and_the_estimate(clustered):
    found = source.read(clustered)
    (picture,) = traces.pictures(found)
    axes = panel(picture.draw(), "stdlib_code · step 1600")
    (row,) = cells(clustered, metric="llc", part="L1H3", dataset="stdlib_code", step=1600)
    chains = [one for one in parquet.read_table(clustered / "traces.parquet").to_pylist() if one["key"] == row["key"]]
    for one in chains:
        x_S, y_S = line(axes, f"chain {one['chain']}")
        assert x_S.tolist() == one["step"]
        np.testing.assert_allclose(y_S, 30.0 * np.array(one["excess"]))
        kept = [excess for step, excess in zip(one["step"], one["excess"], strict=True) if step >= 10]
        assert line(axes, f"mean of chain {one['chain']}")[1][-1] == pytest.approx(30 * np.mean(kept))
    x, y = line(axes, "estimate")
    assert x.tolist() == [json.loads(row["sampler"])["burn_in"], one["step"][-1]]
    assert set(y) == {row["value"]}
    (shade,) = [patch for patch in axes.patches if patch.get_width() == 10]
    assert shade.get_x() == 0


def test_training_loss_is_drawn_for_every_run_with_the_checkpoints(sweep):
    folder = sweep(runs=("a", "b"), steps=(0, 100, 400))
    axes = training.loss(source.read(folder)).axes[0]
    rows = parquet.read_table(folder / "training.parquet").to_pylist()
    for run in ("a", "b"):
        assert line(axes, run)[1].tolist() == [row["loss"] for row in rows if row["run"] == run]
    marks = sorted({one.get_xdata()[0] for one in axes.lines if len(one.get_xdata()) == 2})
    assert marks == [0, 100, 400]


@pytest.mark.parametrize("seed", range(20))
def test_spread_keeps_order_distance_and_bounds(seed):
    rng = np.random.default_rng(seed)
    wanted = rng.uniform(0, 1, rng.integers(1, 12))
    moved = ends.spread(wanted, 0.07, 0.0, 1.0)
    assert np.diff(np.sort(moved)).min(initial=1) >= 0.07 - 1e-12
    assert moved.min() >= -1e-12
    assert moved.max() <= 1 + 1e-12
    assert (np.argsort(moved) == np.argsort(wanted)).all()


def test_spread_leaves_names_that_do_not_touch_and_centres_those_that_do():
    np.testing.assert_allclose(ends.spread([0.9, 0.1, 0.5], 0.1, 0, 1), [0.9, 0.1, 0.5])
    np.testing.assert_allclose(ends.spread([0.5, 0.5], 0.2, 0, 1), [0.4, 0.6])
    np.testing.assert_allclose(ends.spread([0.0, 0.0, 0.0], 0.7, 0, 1), [0.0, 0.5, 1.0])


def test_names_of_64_heads_do_not_overlap(sweep):
    figure = curves.heads(source.read(sweep(heads=64, layers=1, steps=(0, 100), datasets=("pile",), scores=False)), RUN)
    figure.canvas.draw()
    (axes,) = figure.axes
    boxes = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: box.y0)
    tops = [text.get_position()[1] for text in axes.texts]
    assert len(boxes) == 64
    size = axes.texts[0].get_fontsize() / 72 * figure.dpi
    assert min(np.diff(sorted(tops))) * axes.get_window_extent().height >= 0.95 * size


@pytest.mark.parametrize(
    ("value", "half", "limits"),
    [
        ([0, 1], [math.nan, math.nan], (-0.05, 1.05)),
        ([0, 1], [0.5, 9], (-1.15, 2.15)),
        ([math.nan], [1], (0, 1)),
        ([2, 2], [math.nan] * 2, (1, 3)),
    ],
)
def test_limits_follow_values_and_no_more_than_their_range_of_bands(value, half, limits):
    assert style.limits(np.array(value, float), np.array(half, float)) == pytest.approx(limits)


def test_the_consensus_matrix_is_the_table_in_blocks_of_groups(clustered):
    groups = source.read(clustered).groups
    for scope in ("L0", "L1"):
        parts, share_PP = consensus.ordered(groups, RUN, scope)
        assert np.array_equal(share_PP, share_PP.T)
        for (a, b), share in groups.shares[RUN, scope].items():
            assert share_PP[parts.index(a), parts.index(b)] == share
        label = [groups.support[RUN, scope][part].group for part in parts]
        assert label == sorted(label)
    axes = panel(consensus.consensus(groups, RUN), f"L1 · k = {groups.chosen[RUN, 'L1'][0]}")
    assert sorted(text.get_text() for text in axes.get_yticklabels()) == ["H0", "H1", "H2", "H3"]


def test_stability_is_drawn_for_each_group_and_k(clustered):
    groups = source.read(clustered).groups
    k, how = groups.chosen[RUN, "L1"]
    axes = panel(stability.stability(groups, RUN), f"L1 · k = {k} ({how})")
    drawn = {(one.get_xdata()[0], one.get_ydata()[0]) for one in axes.lines if len(one.get_xdata()) == 1}
    for way, found in groups.stability.items():
        if way[:4] == (RUN, "L1", *groups.primary):
            assert {(int(way[4]), one.jaccard) for one in found} <= drawn
    x_K, y_K = line(axes, "mean over heads")
    assert y_K.tolist() == [groups.scores["jaccard"][RUN, "L1", *groups.primary, str(int(k))][0] for k in x_K]


def test_components_are_those_of_the_covariance_matrix():
    points_PF = np.random.default_rng(0).normal(size=(9, 5)) * [5, 3, 1, 1, 1]
    at_PK, share_K = shapes.components(points_PF)
    values, vectors = np.linalg.eigh(np.cov(points_PF.T))
    assert share_K == pytest.approx(values[::-1][:2] / values.sum())
    centred_PF = points_PF - points_PF.mean(0)
    for n in range(2):
        assert np.abs(at_PK[:, n]) == pytest.approx(np.abs(centred_PF @ vectors[:, -1 - n]))


def test_medoids_and_cards_name_every_member_once(clustered):
    found = source.read(clustered)
    labels = found.groups.main(RUN, "L1", *found.groups.primary)
    medoid = shapes.medoids(found.groups, found.clustered[RUN], labels)
    assert {labels[part] for part in medoid.values()} == set(labels.values())
    figure = cards.cards(found, RUN, "L1")
    said = "\n".join(text.get_text() for text in figure.texts).replace("\N{NO-BREAK SPACE}", " ")
    for label in set(labels.values()):
        inside = [part for part, of in labels.items() if of == label]
        assert f"group {label}, {len(inside)} of 4" in said
        assert f"{medoid[label].removeprefix('L1')}*" in said
    for part in labels:
        assert said.count(f"{part.removeprefix('L1')}*") + said.count(f"{part.removeprefix('L1')} (") == 1
    assert "induction" in said
    axes = figure.axes[0]
    inside = [p for p, part in enumerate(found.curves[RUN].parts) if labels.get(part) == 0]
    assert line(axes, "median")[1] == pytest.approx(np.median(found.curves[RUN].value_PDT[inside, 0], axis=0))


def test_cards_tell_what_else_was_measured_and_the_text_of_the_medoid(clustered):
    found = source.read(clustered)
    labels = found.groups.main(RUN, "L1", *found.groups.primary)
    medoid = shapes.medoids(found.groups, found.clustered[RUN], labels)[labels["L1H3"]]
    inside = [part for part in labels if labels[part] == labels["L1H3"]]
    last = found.curves[RUN].value_PDT[[found.curves[RUN].parts.index(part) for part in inside], :, -1]
    texts_ = [f"stdlib_{name}: def ⟦f{n}⟧ +{n}.00" for name in ("code", "mix") for n in range(contexts.SHOWN)]
    rich = dataclasses.replace(
        found,
        others={name: {RUN: dataclasses.replace(found.curves[RUN], metric=name)} for name in ("zero_ablation", "mine")},
        contexts={RUN: {medoid: texts_}},
    )
    said = " ".join(" ".join(text.get_text() for text in cards.cards(rich, RUN, "L1").texts).split())
    each = " / ".join(f"{number:.3g}" for number in np.median(last, axis=0))
    assert f"rise of the loss without it (nats per token): zero_ablation {each}" in said
    assert f"else: mine {each}" in said
    wanted = [f"{medoid}, stdlib_{name}: def ⟦f{n}⟧ +{n}.00" for name in ("code", "mix") for n in range(cards.TOP)]
    assert all(text in said for text in wanted)
    assert said.count("⟦") == len(wanted)


def test_stages_given_by_hand_are_shaded_and_named(clustered):
    found = source.read(clustered, by_hand=[900, 300])
    assert found.spans(RUN) == [(300, 900)]
    assert stages.sentence(found, RUN) == "Stages of run stdlib-s0, by hand, end at step 300, 900."
    axes = panel(curves.heads(found, RUN), "L0 · stdlib_code")
    assert len(axes.patches) == 1
    assert texts(stages.stages(found, RUN).axes[0]) == ["300 · 100%", "900 · 100%"]
    with pytest.raises(Mistake, match=r"report.stages: 1600 is not between the steps 0 and 1600 of run stdlib-s0"):
        source.read(clustered, by_hand=[1600])
    assert source.read(clustered, by_hand=[]).spans(RUN) == []

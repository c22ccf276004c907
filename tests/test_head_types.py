import pytest

from rllc import head_types


@pytest.mark.parametrize(
    ("part", "scores", "name"),
    [
        ("L1H0", (0.04, 0.04, 0.50), "induction"),
        ("L1H0", (0.60, 0.04, 0.30), "induction"),
        ("L0H0", (0.04, 0.04, 0.50), "other"),
        ("L0H0", (0.60, 0.04, 0.50), "previous-token"),
        ("L10H0", (0.04, 0.04, 0.50), "induction"),
        ("L1H0", (0.50, 0.50, 0.29), "previous-token"),
        ("L1H0", (0.49, 0.50, 0.29), "current-token"),
        ("L1H0", (0.49, 0.49, 0.29), "other"),
    ],
)
def test_types_follow_the_rule(part, scores, name):
    assert head_types.head_type(part, dict(zip(head_types.SCORES, scores, strict=True))) == name


def test_scores_are_those_of_the_last_step_averaged_over_datasets(tmp_path):
    lines = ["run,metric,part,dataset,step,value"]
    for metric in head_types.SCORES:
        lines += [f"r,{metric},L0H0,{d},{t},{v}" for d, t, v in (("a", 0, 9), ("a", 10, 0.2), ("b", 10, 0.4))]
    lines += ["r,prev_token,L0H1,a,10,1", "r,llc,L0H0,a,20,7", "q,prefix,L0H0,a,30,7"]
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(lines))
    scores = head_types.last_scores(path)
    assert scores["r"] == {"L0H0": pytest.approx(dict.fromkeys(head_types.SCORES, 0.3))}
    assert scores["q"] == {}
    assert head_types.types(scores) == {"q": {}, "r": {"L0H0": "other"}}


def test_a_table_of_curves_alone_has_no_scores(tmp_path):
    path = tmp_path / "curves.csv"
    path.write_text("part,dataset,step,value\na,d,0,1\n")
    assert head_types.last_scores(path) == {}

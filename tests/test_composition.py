import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rllc import composition
from rllc.config import Config
from rllc.mistake import Mistake


@pytest.fixture
def composed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Config]]:
    """The configurations that a command line gives to its verb."""

    def run(*words: str) -> list[Config]:
        monkeypatch.setattr(sys, "argv", list(sys.argv))
        monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
        found: list[Config] = []
        assert composition.run("sweep", words, lambda config: found.append(config) or len(found)) == len(found)
        return found

    return run


def test_the_defaults_are_the_demo(composed: Callable[..., list[Config]]) -> None:
    (config,) = composed()
    assert config == composition.compose()
    assert (config.name, list(config.data)) == ("demo", ["stdlib_mix", "stdlib_code"])


@pytest.mark.parametrize("name", ["demo", "paper", "paper_figures", "susceptibilities"])
def test_every_preset_of_the_sampler_resolves(name: str) -> None:
    assert composition.compose([f"sampler={name}"]).sampler.lr == 1e-3


def test_presets_are_what_the_papers_say() -> None:
    figures = composition.compose(["sampler=paper_figures"]).sampler
    assert (figures.batches, figures.reference, figures.reference_batches) == ("shared", "batches", 16)
    assert (figures.chains, figures.draws, figures.gamma, figures.batch, figures.nbeta) == (4, 200, 200.0, 32, 30.0)
    other = composition.compose(["sampler=susceptibilities"]).sampler
    assert (other.gamma, other.batch, other.draws) == (300.0, 64, 200)


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        (["experiment=seeds"], "train.seeds", [0, 1, 2]),
        (["model=paper"], "model.d_vocab", 5000),
        (["sampler.gamma=100"], "sampler.gamma", 100.0),
        (["data=[stdlib_code]", "train.data=stdlib_code"], "train.data", "stdlib_code"),
        (["grid.parts=[L0H1,'L0*','*']"], "grid.parts", ["L0H1", "L0*", "*"]),
        (["grid.steps=null"], "grid.steps", None),
        (["track=wandb"], "track.kind", "wandb"),
    ],
)  # fmt: skip
def test_overrides(words: Sequence[str], key: str, value: object) -> None:
    found: object = composition.compose(words)
    for name in key.split("."):
        found = getattr(found, name)
    assert found == value


def test_two_data_sets_of_files_side_by_side() -> None:
    words = ["+data@data.pile=files", "+data@data.code=files", "data.pile.path=a", "data.code.path=b"]
    data = composition.compose(words).data
    assert {name: data[name].path for name in ("pile", "code")} == {"pile": "a", "code": "b"}
    with pytest.raises(Mistake, match=r"^data.code.path: no value is given.$"):
        composition.compose(words[:3])


def test_a_multirun_makes_a_sweep_of_its_own_for_each_job(
    composed: Callable[..., list[Config]], tmp_path: Path
) -> None:
    configs = composed("-m", "sampler.gamma=100,200", f"root={tmp_path}", "name=g", "grid.parts=[L0H1]")
    assert [config.sampler.gamma for config in configs] == [100.0, 200.0]
    assert [config.name for config in configs] == ["g-sampler.gamma=100", "g-sampler.gamma=200"]


def test_jobs_of_many_overrides_are_told_apart(composed: Callable[..., list[Config]], tmp_path: Path) -> None:
    words = [
        "-m",
        f"root={tmp_path}",
        "sampler=paper,demo",
        "grid.parts=[L0H1],[L0*]",
        "train.seeds=[0]",
    ]
    assert [config.name for config in composed(*words)] == [
        "demo-sampler=paper-grid.parts=_L0H1_", "demo-sampler=paper-grid.parts=_L0__",
        "demo-sampler=demo-grid.parts=_L0H1_", "demo-sampler=demo-grid.parts=_L0__",
    ]  # fmt: skip
    assert [config.name for config in composed("-m", "name=a,b", f"root={tmp_path}")] == ["a", "b"]
    assert [config.name for config in composed("-m", "sampler.gamma=100", f"root={tmp_path}")] == ["demo"]


def test_flags_may_stand_anywhere(composed: Callable[..., list[Config]], tmp_path: Path) -> None:
    first = composed("-m", "sampler.gamma=100,200", f"root={tmp_path}")
    assert composed("sampler.gamma=100,200", "-m", f"root={tmp_path}") == first
    assert composed("sampler.gamma=100,200", f"root={tmp_path}", "--multirun") == first


def test_no_job_begins_before_all_are_known_to_be_legal(tmp_path: Path) -> None:
    begun: list[Config] = []
    with pytest.raises(Mistake, match=r"^sampler.gamma: -1.0"):
        composition.run(
            "sweep", ["-m", "sampler.gamma=100,-1", f"root={tmp_path}"], lambda config: begun.append(config)
        )  # type: ignore[func-returns-value]
    assert not begun


def test_the_highest_code_of_the_jobs_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    words = ["-m", "grid.seeds=[0],[1],[2]", f"root={tmp_path}"]
    assert composition.run("sweep", words, lambda config: [0, 1, 0][config.grid.seeds[0]]) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["sampler.lr="], "sampler.lr: "),
        (["sampler.lr=${nope}"], "Interpolation key 'nope' not found."),
        (["hydra.nope=1"], "hydra.nope: the groups that are chosen have no such key."),
        (["data@nope=files"], "data@nope: the groups that are chosen have no such key."),
        (["experiment=null"], "experiment: 'null' is not one of: "),
        (["model.n_heads=???"], "model.n_heads: no value is given."),
        (["experiment=nope"], "experiment: 'nope' is not one of: "),
        (["cluster=null"], "cluster: 'null' is not one of: default."),
        ([""], "'' is not an override"),
        (["==3"], "there is no such key"),
    ],
)  # fmt: skip
def test_what_hydra_says_is_one_line(words: Sequence[str], sentence: str) -> None:
    with pytest.raises(Mistake) as told:
        composition.compose(words)
    assert sentence in str(told.value)
    assert "\n" not in str(told.value)
    assert "hydra.cc" not in str(told.value)


def command(*words: str) -> "subprocess.CompletedProcess[str]":
    code = "import sys; from rllc.cli import main; sys.exit(main())"
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)


def test_the_whole_configuration_is_shown_resolved(tmp_path: Path) -> None:
    import yaml

    shown = command("sweep", "sampler.gamma=123", "--cfg", "job", f"root={tmp_path}")
    assert (shown.returncode, shown.stderr) == (0, "")
    values = yaml.safe_load(shown.stdout)
    assert values["sampler"]["gamma"] == 123
    assert set(values) == set(vars(composition.compose()))
    assert list(tmp_path.iterdir()) == []


def test_the_groups_are_shown() -> None:
    shown = command("sweep", "--help")
    assert shown.returncode == 0
    assert "sampler: demo, paper, paper_figures, rmsprop, sgnht, susceptibilities" in shown.stdout

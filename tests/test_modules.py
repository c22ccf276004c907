import dataclasses
import importlib
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from rllc import composition, derive, modules, plan, runs, status, store, sweep, trajectories, work
from rllc.metrics import llc
from rllc.mistake import Mistake
from rllc.task import Sampler

TARGETS = torch.linspace(-1, 1, 24).view(12, 2)


class Net(nn.Module):
    """Two layers with dropout between them."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 5)
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(5, 2)

    def forward(self, x):
        return self.second(self.drop(torch.tanh(self.first(x))))


def loss(module, batch):
    return F.mse_loss(module(batch[0]), batch[1], reduction="none").mean(1)


def near():
    return torch.linspace(0, 1, 36).view(12, 3), TARGETS


FAR = (torch.linspace(5, 9, 36).view(12, 3), TARGETS)


def scalar(_module, batch):
    return batch


def missing(_module, _batch):
    raise KeyError("labels")


def unmade():
    raise RuntimeError("no such size\n  in any line")


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """The overrides of a small sweep over three saved steps of a module."""
    (tmp_path / "net").mkdir()
    for step in (0, 5, 10):
        torch.manual_seed(step)
        torch.save(Net().state_dict(), tmp_path / "net" / f"net_{step:02}.pt")
    return [
        "model=module", f"path={tmp_path / 'net'}", f"root={tmp_path}", "name=mine", "module.make=test_modules:Net",
        "module.loss=test_modules:loss", "module.data={near: test_modules:near, far: test_modules:FAR}",
        "grid.parts=[first,second.weight,'*']", "sampler.chains=2", "sampler.draws=4", "sampler.burn_in=0",
        "sampler.batch=3",
    ]  # fmt: skip


def test_a_sweep_over_state_dicts_is_an_ordinary_sweep(words: list[str], tmp_path: Path) -> None:
    """Each number is the one of the module with that file's weights; what reads a sweep reads this one."""
    config = composition.compose(words)
    sweep.make_plan(config, sweep.check(config))
    folder = derive.folder(config)
    cells = plan.read(folder)
    assert len(cells) == 3 * 2 * 3
    assert work.work(folder, plan.read(folder), name="w") == 0
    assert status.status(folder).whole
    for cell in cells:
        net = Net().eval()
        net.load_state_dict(torch.load(tmp_path / cell.checkpoint, weights_only=True))
        data = near() if cell.task.dataset == "near" else FAR
        expected = llc.measure_module(cell.task, net, loss, data)
        assert np.array_equal(store.get(folder, cell.task.key).loss_CS, expected.loss_CS)
    assert cells[0].task.loss == "test_modules:loss"
    derive.gather_results(config)
    (curves,) = trajectories.read(folder)
    assert (curves.run, curves.parts, curves.datasets, curves.steps) == (
        "net", ("*", "first", "second.weight"), ("far", "near"), (0, 5, 10)
    )  # fmt: skip


def test_the_same_command_again_plans_nothing_new(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    config = composition.compose(words)
    for _ in range(2):
        sweep.make_plan(config, sweep.check(config))
    assert "plan: 18 tasks, 0 of them new" in capsys.readouterr().out


def test_a_file_or_data_that_changed_after_planning_is_not_measured(words: list[str], tmp_path: Path) -> None:
    config = composition.compose([*words, "grid.parts=[first]", "grid.datasets=[near]"])
    sweep.make_plan(config, sweep.check(config))
    torch.save(Net().state_dict(), tmp_path / "net" / "net_05.pt")
    folder = derive.folder(config)
    assert work.work(folder, plan.read(folder), name="w") == 1
    (sentence,) = store.errors(folder).values()
    assert sentence.endswith("net_05.pt is no longer the file that was planned.")
    cell = dataclasses.replace(plan.read(folder)[0], rows="test_modules:FAR")
    with pytest.raises(Mistake, match="test_modules:FAR no longer gives the samples that were planned"):
        modules.opened(tmp_path, cell)


WRONG = {
    r"grid.parts: 'frist' matches no parameter; nearest: first; legal: names first.weight": ["grid.parts=[frist]"],
    "grid.steps: step 7 of run .* is not saved; the nearest saved one is 5": ["grid.steps=[7]"],
    "grid.datasets: 'code' is not one of: near, far": ["grid.datasets=[code]"],
    "module.make: 'test_modules:Nothing' cannot be imported": ["module.make=test_modules:Nothing"],
    "module.make: 'nowhere.at_all:make' cannot be imported": ["module.make=nowhere.at_all:make"],
    r"^module.loss: 'test_modules:missing' fails on module.data.near \(KeyError: 'labels'\)\.$": [
        "module.loss=test_modules:missing"
    ],
    r"^module.make: 'test_modules:unmade' fails \(RuntimeError: no such size in any line\)\.$": [
        "module.make=test_modules:unmade"
    ],
    r"^module.data: 'test_modules:unmade' fails \(RuntimeError: no such size in any line\)\.$": [
        "module.data={near: test_modules:unmade}"
    ],
    "module.loss: 'loss' is not an import path": ["module.loss=loss"],
    "module.make: 'test_modules:near' returned a tuple, not a torch.nn.Module": ["module.make=test_modules:near"],
    "loss: tuple is neither a scalar nor one number a sample": ["module.loss=test_modules:scalar"],
    "data: 12 samples are fewer than a minibatch, sampler.batch 13": ["sampler.batch=13"],
    "grid.metrics: .* cannot all be measured on a module; legal: .llc.": ["grid.metrics=[llc,prev_token]"],
    "path: null names no folder": ["path=null"],
    "has no checkpoints named": ["path=."],
    "sampler.backend: jax cannot be used with model=module; legal: torch": ["sampler.backend=jax"],
}


@pytest.mark.parametrize("sentence", WRONG)
def test_mistakes_are_found_before_any_work(words: list[str], sentence: str, tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Mistake, match=sentence):
        sweep.check(composition.compose([*words, *WRONG[sentence]]))
    assert not (tmp_path / "sweeps").exists()


def test_the_whole_model_by_accident_is_told(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    sweep.check(composition.compose([*words, "grid.parts=[first+second]"]))
    assert "grid.parts: 'first+second' is the whole model, all 4 arrays" in capsys.readouterr().err


def test_a_verb_for_attention_models_says_so(words: list[str]) -> None:
    with pytest.raises(Mistake, match="model: module is for `rllc sweep`"):
        runs.model(composition.compose(words))


def test_import_paths_are_found_from_the_folder_of_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_alone.py").write_text("answer = 42\n")
    monkeypatch.setattr("sys.path", [place for place in importlib.sys.path if place])
    monkeypatch.chdir(tmp_path)
    assert modules.found("mine_alone:answer", "module.data") == 42


def test_a_half_asked_for_module_is_refused() -> None:
    with pytest.raises(Mistake, match=r"no value is given"):
        composition.compose(["model=module"])
    assert composition.compose().module is None
    assert isinstance(composition.compose().sampler, Sampler)

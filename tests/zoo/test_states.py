import pickle

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from rllc.mistake import Mistake
from rllc.zoo import arrays, states, steps


@pytest.mark.parametrize(
    "name", ["net_0100.pt", "step100.pth", "epoch=3-step=100.pt", "100.safetensors", "v2_checkpoint_100.safetensors"]
)
def test_the_step_is_the_last_number_of_the_name(tmp_path, name):
    (tmp_path / name).touch()
    (tmp_path / "optimizer_100.bin").touch()
    (tmp_path / "best.pt").touch()
    assert steps.checkpoints(tmp_path) == {100: tmp_path / name}


def test_steps_are_in_order_and_those_of_the_inner_folder_first(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    for step in (20, 3, 100):
        (tmp_path / "checkpoints" / f"net_{step}.pt").touch()
    (tmp_path / "net_7.pt").touch()
    assert list(steps.checkpoints(tmp_path)) == [3, 20, 100]


def test_a_folder_without_checkpoints_or_with_two_of_a_step_is_refused(tmp_path):
    with pytest.raises(Mistake, match=r"has no checkpoints named …<step>\.safetensors, \.pt or \.pth"):
        steps.checkpoints(tmp_path)
    (tmp_path / "net_007.pt").touch()
    (tmp_path / "net_7.pth").touch()
    with pytest.raises(Mistake, match=r"two files of step 7: net_007\.pt, net_7\.pth"):
        steps.checkpoints(tmp_path)


def test_both_formats_put_the_same_weights(tmp_path):
    torch.manual_seed(0)
    saved = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    torch.save(saved.state_dict(), tmp_path / "net_1.pt")
    save_file(saved.state_dict(), tmp_path / "net_2.safetensors")
    for path in steps.checkpoints(tmp_path).values():
        module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
        states.put(path, module)
        for name, array in saved.state_dict().items():
            assert torch.equal(array, module.state_dict()[name])
    assert arrays.digest(tmp_path / "net_1.pt") != arrays.digest(tmp_path / "net_2.safetensors")


class Trap:
    def __reduce__(self):
        return pytest.fail, ("a checkpoint was executed",)


def test_nothing_in_a_checkpoint_is_executed(tmp_path):
    torch.save({"weight": Trap()}, tmp_path / "net_1.pt")
    (tmp_path / "net_2.pt").write_bytes(pickle.dumps(Trap(), 2))
    for step in (1, 2):
        with pytest.raises(Mistake, match="it holds code"):
            states.put(tmp_path / f"net_{step}.pt", nn.Linear(3, 2))


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_a_damaged_file_is_said_in_a_sentence(tmp_path, suffix):
    whole, cut = tmp_path / f"net_1.{suffix}", tmp_path / f"net_2.{suffix}"
    if suffix == "pt":
        torch.save(nn.Linear(30, 20).state_dict(), whole)
    else:
        save_file(nn.Linear(30, 20).state_dict(), whole)
    cut.write_bytes(whole.read_bytes()[:500])
    with pytest.raises(Mistake, match=f"run: {cut} (cannot be read as a state dict|is not a whole safetensors file)"):
        states.put(cut, nn.Linear(30, 20))
    (tmp_path / f"net_3.{suffix}").touch()
    with pytest.raises(Mistake, match=r"cannot be read as a state dict|is not a whole"):
        states.put(tmp_path / f"net_3.{suffix}", nn.Linear(30, 20))


def test_what_is_no_state_dict_or_of_another_module_is_refused(tmp_path):
    torch.save({"model": {}, "step": 3}, tmp_path / "net_1.pt")
    with pytest.raises(Mistake, match="holds no state dict, names with tensors"):
        states.put(tmp_path / "net_1.pt", nn.Linear(3, 2))
    torch.save(nn.Linear(4, 2).state_dict(), tmp_path / "net_2.pt")
    with pytest.raises(Mistake, match=r"does not fit the module: .*size mismatch for weight"):
        states.put(tmp_path / "net_2.pt", nn.Linear(3, 2))

import csv
import json
import pickle
import shutil
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from flat import views
from safetensors.torch import load_file, save_file

from rllc.config import Model
from rllc.metrics import patterns
from rllc.mistake import Mistake
from rllc.models import decoder, lens
from rllc.models.pool import Pool
from rllc.task import Task
from rllc.zoo import folder

sys.path.append(str(Path(__file__).parents[1] / "fixtures" / "tiny_attn"))
import tiny_attn

SHAPE = Model(n_layers=2, n_heads=8, d_model=64, d_head=8, n_ctx=64, d_vocab=512, positions="shortformer")
KEYS = {"q": "W_Q", "k": "W_K", "v": "W_V", "o": "W_O", "bq": "b_Q", "bk": "b_K", "bv": "b_V"}


def table(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def mixed(each):
    return torch.from_numpy(np.concatenate([tiny_attn.rows("code")[:each], tiny_attn.rows("prose")[:each]]))


@pytest.fixture
def run(tmp_path):
    """A run's folder with one good checkpoint, of step 7."""
    shutil.copy(tiny_attn.path(1600), tmp_path / "step_0000007.safetensors")
    shutil.copy(tiny_attn.FOLDER / "config.json", tmp_path / "config.json")
    return tmp_path


@pytest.mark.parametrize("step", tiny_attn.STEPS)
def test_layout_goes_to_flat_names_and_back_bit_for_bit(step, tmp_path):
    state = load_file(tiny_attn.path(step))
    model, weights = folder.load(tiny_attn.path(step))
    assert model == SHAPE
    flat = views(weights, model)
    for layer in range(2):
        for head in range(8):
            for name, key in KEYS.items():
                assert torch.equal(flat[f"L{layer}H{head}.{name}"], state[f"blocks.{layer}.attn.{key}"][head])
        assert torch.equal(flat[f"L{layer}.bo"], state[f"blocks.{layer}.attn.b_O"])
    assert torch.equal(flat["unembed"], state["unembed.W_U"])
    assert sum(array.numel() for array in flat.values()) == sum(array.numel() for array in state.values()) == 103_808
    back = lens.save(weights, model)
    assert back.keys() == state.keys()
    assert all(torch.equal(back[key], state[key]) for key in state)
    saved = tmp_path / "step_0000001.safetensors"
    folder.save(saved, model, weights)
    again = load_file(saved)
    assert again.keys() == state.keys()
    assert all(torch.equal(again[key], state[key]) for key in state)
    assert folder.load(saved)[0] == model  # without a config.json beside it


def test_steps_come_in_order_with_their_files():
    assert folder.checkpoints(tiny_attn.FOLDER) == {step: tiny_attn.path(step) for step in tiny_attn.STEPS}


def test_hash_is_of_the_content():
    hashes = [folder.describe(tiny_attn.path(step)) for step in (*tiny_attn.STEPS, 0)]
    assert [model for model, _ in hashes] == [SHAPE] * 4
    assert len({digest for _, digest in hashes}) == 3
    assert hashes[0] == hashes[3]


@pytest.mark.parametrize("step", tiny_attn.STEPS)
def test_losses_are_those_of_the_code_that_trained_it(step):
    known = next(row for row in table(tiny_attn.FOLDER / "losses.csv") if int(row["step"]) == step)
    model, weights = folder.load(tiny_attn.path(step))
    for kind in ("prose", "code"):
        tokens_NL = torch.from_numpy(tiny_attn.rows(kind)[:1024])
        with torch.no_grad():
            loss_N = torch.cat([decoder.forward(weights, rows[None], model)[0] for rows in tokens_NL.split(64)])
        assert float(loss_N.mean()) == pytest.approx(float(known[f"loss_{kind}"]), abs=0.1)


SCORES = {"prev_token": patterns.prev_token, "current_token": patterns.current_token, "prefix": patterns.prefix}


@pytest.mark.parametrize("step", tiny_attn.STEPS)
@pytest.mark.parametrize("metric", SCORES)
def test_scores_of_all_heads_are_the_known_ones(step, metric):
    known = {
        f"L{row['layer']}H{row['head']}": float(row[metric])
        for row in table(tiny_attn.FOLDER.parent / "tiny_reference" / "head_scores.csv")
        if int(row["step"]) == step
    }
    model, weights = folder.load(tiny_attn.path(step))
    first = np.random.default_rng(0).integers(1, 512, size=(256, 32))  # 0 is the end of a text
    repeats = torch.from_numpy(np.hstack([first, first]))
    pool = Pool(weights, model, repeats if metric == "prefix" else mixed(256), chains=1, batch=32)
    measure = partial(patterns.measure, pool=pool, score=SCORES[metric])
    found = {part: measure(Task("tiny", "", step, part, "text", "", metric, 0, None)).value for part in known}
    assert len(found) == 16
    assert found == pytest.approx(known, abs=0.05)


def test_a_truncated_file_is_named(run):
    path = run / "step_0000007.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    refused(path, "not a whole safetensors file")


@pytest.mark.parametrize("content", [b"", b"step,loss\n0,6.4\n", b"\xff" * 64])
def test_what_is_not_safetensors_is_named(run, content):
    path = run / "step_0000007.safetensors"
    path.write_bytes(content)
    refused(path, "not a whole safetensors file")


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.mark.parametrize("dump", [pickle.dump, torch.save])
def test_a_pickle_is_refused_and_never_executed(run, dump):
    path, trace = run / "step_0000007.safetensors", run / "trace"
    with path.open("wb") as file:
        dump(Trap(trace), file)
    refused(path, "not a whole safetensors file")
    assert not trace.exists()


def changed(run, change):
    path = run / "step_0000007.safetensors"
    state = load_file(path)
    change(state)
    save_file(state, path)
    return path


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda array: array.index_fill(0, torch.tensor([3]), torch.inf), "a number that is not finite"),
        (lambda array: array * torch.nan, "a number that is not finite"),
        (lambda array: array.to(torch.int32), "torch.int32 in place of floats"),
    ],
)
def test_weights_that_are_no_finite_numbers_are_named(run, spoil, said):
    path = changed(run, lambda state: state.update({"embed.W_E": spoil(state["embed.W_E"])}))
    with pytest.raises(Mistake, match=f"step_0000007.safetensors holds {said} in embed"):
        folder.load(path)


def test_a_missing_key_is_named(run):
    path = changed(run, lambda state: state.pop("blocks.1.attn.W_K"))
    refused(path, "blocks.1.attn.W_K missing (1 in all)")


def test_an_unknown_key_is_named(run):
    path = changed(run, lambda state: state.update({"blocks.0.mlp.W_in": torch.zeros(64, 256)}))
    refused(path, "holds 'blocks.0.mlp.W_in', which this model")


def test_buffers_of_the_layout_are_no_parameters(run):
    buffers = {"blocks.0.attn.mask": torch.zeros(64, 64), "blocks.1.attn.IGNORE": torch.tensor(-1e5)}
    path = changed(run, lambda state: state.update(buffers))
    assert folder.load(path)[1].keys() == folder.load(tiny_attn.path(1600))[1].keys()


def test_a_wrong_shape_is_named(run):
    path = changed(run, lambda state: state.update({"embed.W_E": state["embed.W_E"].T.contiguous()}))
    refused(path, "embed.W_E has shape (64, 512); this model (attention-only, n_layers 2")


@pytest.mark.parametrize(
    "change", [{"attn_only": False}, {"normalization_type": "RMS"}, {"positional_embedding_type": "rotary"}]
)
def test_another_architecture_is_named(run, change):
    config = run / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    refused(run / "step_0000007.safetensors", "is not an attention-only model with normalization_type LN", named=config)


def test_a_config_of_another_size_is_named(run):
    config = run / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"n_heads": 4, "d_head": 16}))
    refused(run / "step_0000007.safetensors", "has shape (8, 64, 8)")


def test_a_config_without_sizes_is_named(run):
    config = run / "config.json"
    for text, sentence in (
        ('{"attn_only": true, "normalization_type": "LN", "n_layers": 2}', "gives None for n_heads"),
        ('{"attn_only": true, "normalization_type": "LN", "n_layers": "2"}', "gives '2' for n_layers"),
        ("[1, 2]", "is not a group of named values"),
        ("{", "is not JSON"),
    ):
        config.write_text(text)
        refused(run / "step_0000007.safetensors", sentence, named=config)


def test_a_checkpoint_that_names_no_model_is_named(run):
    (run / "config.json").unlink()
    refused(run / "step_0000007.safetensors", "names no model, and there is no config.json beside it")


def test_two_files_of_one_step_are_named(run):
    shutil.copy(run / "step_0000007.safetensors", run / "checkpoint_7.safetensors")
    with pytest.raises(Mistake) as mistake:
        folder.checkpoints(run)
    sentence(mistake, run, "two files of step 7: checkpoint_7.safetensors, step_0000007.safetensors")


def test_a_folder_without_checkpoints_is_named(tmp_path):
    shutil.copy(tiny_attn.path(0), tmp_path / "model.safetensors")
    for place in (tmp_path, tmp_path / "absent"):
        with pytest.raises(Mistake) as mistake:
            folder.checkpoints(place)
        sentence(mistake, place, "has no checkpoints named …<step>.safetensors")


def test_an_absent_file_is_named(tmp_path):
    refused(tmp_path / "step_0000003.safetensors", "does not exist")


def refused(path, words, named=None):
    """Reading and describing the file are the same mistake, one sentence that names it."""
    for read in (folder.load, folder.describe):
        with pytest.raises(Mistake) as mistake:
            read(path)
        sentence(mistake, named or path, words)


def sentence(mistake, path, words):
    text = str(mistake.value)
    assert str(path) in text
    assert words in text
    assert "\n" not in text
    assert text.endswith(".")

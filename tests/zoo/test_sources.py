import dataclasses
import hashlib
import json
from pathlib import Path

import pytest
import torch
from hub import Hub, directed
from layouts import SHAPE, TOKENIZER, lens_state, named, neox, packed, tiny_attn, torch_files, transformers_files
from safetensors.torch import load_file

from rllc.config import Source
from rllc.data import tokenizer
from rllc.mistake import Mistake
from rllc.models import hf, lens
from rllc.zoo import folder, places, pointer, sources

NOWHERE = "http://127.0.0.1:9"  # nobody listens there


def fetched(source: Source, run: Path, step: int, index: int = 0) -> Path:
    return sources.fetch(source, index, run, step=step)


def test_the_papers_layout_gives_the_very_weights(paper: Source, hub: Hub, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert list(sources.saved(paper, 0, run)) == list(tiny_attn.STEPS)
    assert sources.model(paper, 0, run) == SHAPE
    path = fetched(paper, run, 1000)
    model, weights = folder.load(path)
    expected = lens.load(load_file(tiny_attn.path(1000)), SHAPE, "")
    assert model == SHAPE
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    file = hub.repos["models", "timaeus/tiny"]["main"]["checkpoints/checkpoint_0001000.pth"]
    assert folder.describe(path) == (SHAPE, hashlib.sha256(file).hexdigest()[:16])


def test_only_the_files_that_are_asked_for_come_and_each_once(paper: Source, hub: Hub, tmp_path: Path) -> None:
    for _ in range(2):
        sources.prepare(paper, 0, tmp_path / "run")
        for step in (0, 1600):
            folder.load(fetched(paper, tmp_path / "run", step))
    fetched(paper, tmp_path / "another", 1600)
    assert hub.asked.count("timaeus/tiny/resolve/main/checkpoints/checkpoint_0001600.pth") <= 2  # its size, and itself
    assert sorted(hub.sent) == [
        "timaeus/tiny@main/checkpoints/checkpoint_0000000.pth",
        "timaeus/tiny@main/checkpoints/checkpoint_0001600.pth",
        "timaeus/tokens@main/tokenizer.json",
    ]
    saved = sources.saved(paper, 0, tmp_path / "run")
    assert [places.cached(paper, 0, place) for place in saved.values()] == [True, False, True]


def test_a_file_is_hashed_once(paper: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fetched(paper, tmp_path / "run", 1000)
    known = folder.describe(path)
    monkeypatch.setattr("rllc.zoo.arrays.sha256", lambda _: pytest.fail("it was hashed again"))
    assert folder.describe(path) == known
    assert fetched(paper, tmp_path / "run", 1000) == path


def test_what_is_here_serves_without_a_network(paper: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    for step in (0, 1000):
        fetched(paper, run, step)
    sources.prepare(paper, 0, run)
    directed(monkeypatch, NOWHERE, str(tmp_path / "cache"))
    assert list(sources.saved(paper, 0, run)) == list(tiny_attn.STEPS)
    assert folder.load(fetched(paper, run, 1000))[0] == SHAPE
    fresh = tmp_path / "fresh"  # as after `hf download` on another machine: the cache alone
    assert list(sources.saved(paper, 0, fresh)) == [0, 1000]
    assert folder.load(fetched(paper, fresh, 0))[0] == SHAPE
    sources.prepare(paper, 0, fresh)
    monkeypatch.setattr("time.sleep", lambda _: None)  # the library tries again several times
    with pytest.raises(Mistake) as mistake:
        fetched(paper, run, 1600)
    assert str(mistake.value) == (
        "source.repos: timaeus/tiny cannot be reached, and checkpoints/checkpoint_0001600.pth is not in the cache; "
        "where there is a network, run `hf download timaeus/tiny checkpoints/checkpoint_0001600.pth`, and set HF_HOME "
        "to the same folder here."
    )


def test_offline_by_the_environment_is_a_hub_that_is_not_reached(
    paper: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched(paper, tmp_path / "run", 0)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert list(sources.saved(paper, 0, tmp_path / "fresh")) == [0]
    with pytest.raises(Mistake, match=r"cannot be reached.*hf download other/one`"):
        sources.saved(dataclasses.replace(paper, repos=["other/one"]), 0, tmp_path / "other")


def test_a_file_that_was_lost_comes_again_and_one_that_changed_is_told(paper: Source, tmp_path: Path) -> None:
    path = fetched(paper, tmp_path / "run", 0)
    target = Path(pointer.read(path).target)
    target.resolve().unlink()
    target.unlink()
    with pytest.raises(Mistake, match="which is gone; its source brings it again"):
        folder.load(path)
    assert folder.load(fetched(paper, tmp_path / "run", 0))[0] == SHAPE
    target.resolve().write_bytes(packed(lens_state(1600)))
    with pytest.raises(Mistake, match="is no longer the file that was planned"):
        folder.load(path)


@pytest.mark.parametrize("kind", ["whole", "sharded", "bin", "half"])
def test_pythias_layout_gives_the_very_weights(hub: Hub, tmp_path: Path, kind: str) -> None:
    models = {step: neox(step) for step in (0, 1, 2, 512)}
    for step, model in models.items():
        if kind == "half":
            model.half()
        files = {
            "whole": lambda at, model=model: transformers_files(model, at),
            "half": lambda at, model=model: transformers_files(model, at),
            "sharded": lambda at, model=model: transformers_files(model, at, max_shard_size="20KB"),
            "bin": lambda at, model=model: torch_files(model, at),
        }[kind](tmp_path / f"made{step}")
        hub.put("EleutherAI/tiny", {**files, "tokenizer.json": TOKENIZER}, revision=f"step{step}")
    hub.put("EleutherAI/tiny", {".gitattributes": b""})
    source, run = Source(repos=["EleutherAI/tiny"], revision="step{step}"), tmp_path / "run"
    assert list(sources.saved(source, 0, run)) == [0, 1, 2, 512]
    assert sources.model(source, 0, run).d_rotary == 2
    assert not [name for name in hub.sent if "model" in name]  # known from the config alone
    path = fetched(source, run, 512)
    model, weights = folder.load(path)
    assert folder.describe(path)[0] == model == sources.model(source, 0, run)
    theirs, ours = named(models[512]), hf.save(weights, model)
    assert all(torch.equal(array, theirs[name].float()) for name, array in ours.items())
    assert {array.dtype for array in weights.values()} == {torch.float32}
    sources.prepare(source, 0, run)
    assert (run / "tokenizer.json").read_bytes() == TOKENIZER
    assert not [name for name in hub.sent if "step1/" in name or "step2/" in name]


def test_checkpoints_of_other_weights_or_options_have_other_hashes(hub: Hub, tmp_path: Path) -> None:
    files = transformers_files(neox(0), tmp_path / "a")
    config = json.loads(files["config.json"])
    hub.put("o/n", files, revision="step0")
    hub.put("o/n", transformers_files(neox(1), tmp_path / "b"), revision="step1")
    hub.put("o/n", files | {"config.json": json.dumps(config | {"layer_norm_eps": 1e-6}).encode()}, revision="step2")
    source = Source(repos=["o/n"], revision="step{step}")
    found = [folder.describe(fetched(source, tmp_path / "run", step)) for step in (0, 1, 2)]
    assert len({digest for _, digest in found}) == 3
    assert [model.eps for model, _ in found] == [1e-5, 1e-5, 1e-6]


def test_a_repository_with_one_checkpoint_has_step_0(hub: Hub, tmp_path: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    made = GPT2LMHeadModel(GPT2Config(vocab_size=512, n_positions=64, n_embd=32, n_layer=2, n_head=4))
    hub.put("openai-community/tiny", {**transformers_files(made, tmp_path / "made"), "tokenizer.json": TOKENIZER})
    source = Source(repos=["openai-community/tiny"])
    assert list(sources.saved(source, 0, tmp_path / "run")) == [0]
    model, weights = folder.load(fetched(source, tmp_path / "run", 0))
    theirs = made.state_dict()
    assert all(torch.equal(array, theirs[name]) for name, array in hf.save(weights, model).items())


def test_token_numbered_files_with_a_config(hub: Hub, tmp_path: Path) -> None:
    config = {"d_model": 64, "n_layers": 2, "d_head": 8, "n_heads": 8, "n_ctx": 64, "d_vocab": 512, "act_fn": "gelu",
              "attn_only": True, "normalization": "LN", "shortformer_pos": True}  # fmt: skip
    files = {f"checkpoints/Attn_Only_2L_{step * 2048:012d}.pth": packed(lens_state(step)) for step in tiny_attn.STEPS}
    hub.put("N/Attn", {**files, "config.json": json.dumps(config).encode(), "Attn_Only_2L_final.pth": b"later"})
    source = Source(repos=["N/Attn"], file="checkpoints/*_{step}.pth", tokenizer=str(tiny_attn.FOLDER))
    run = tmp_path / "run"
    assert list(sources.saved(source, 0, run)) == [0, 2_048_000, 3_276_800]
    assert folder.load(fetched(source, run, 2_048_000))[0] == sources.model(source, 0, run) == SHAPE
    sources.prepare(source, 0, run)
    assert (run / "tokenizer.json").read_bytes() == TOKENIZER


def test_a_files_of_the_time_before_the_zip_format(tmp_path: Path) -> None:
    (tmp_path / "net_7.pth").write_bytes(packed(lens_state(1000), old=True))
    source = Source(path=str(tmp_path), file="*_{step}.pth", model=SHAPE)
    weights = folder.load(fetched(source, tmp_path / "run", 7))[1]
    expected = lens.load(lens_state(1000), SHAPE, "")
    assert all(torch.equal(weights[name], expected[name]) for name in expected)


def test_folders_that_a_trainer_leaves(tmp_path: Path) -> None:
    models = {step: neox(step) for step in (500, 1000)}
    for step, model in models.items():
        transformers_files(model, tmp_path / "out" / f"checkpoint-{step}")
        (tmp_path / "out" / f"checkpoint-{step}" / "optimizer.pt").write_bytes(b"")
    (tmp_path / "out" / "runs-2").mkdir()
    source, run = Source(path=str(tmp_path / "out"), file="checkpoint-{step}"), tmp_path / "run"
    for found in (sources.saved(source, 0, run), folder.checkpoints(tmp_path / "out")):
        assert list(found) == [500, 1000]
    by_path = folder.checkpoints(tmp_path / "out")[1000]
    model, weights = folder.load(fetched(source, run, 1000))
    again = folder.load(by_path)[1]
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    assert folder.describe(by_path) == folder.describe(fetched(source, run, 1000))
    theirs = named(models[1000])
    assert all(torch.equal(array, theirs[name]) for name, array in hf.save(weights, model).items())


def test_a_folder_that_grows_is_seen_to_grow(tmp_path: Path) -> None:
    source = Source(path=str(tmp_path / "out"), file="*_{step}.pth", model=SHAPE)
    (tmp_path / "out").mkdir()
    for step in (3, 5):
        (tmp_path / "out" / f"net_{step}.pth").write_bytes(packed(lens_state(0)))
        assert max(sources.saved(source, 0, tmp_path / "run")) == step


def test_the_token_that_starts_a_row_is_the_one_that_is_given(paper: Source, tmp_path: Path) -> None:
    found = []
    for bos in (None, 300):
        run = tmp_path / str(bos)
        sources.prepare(dataclasses.replace(paper, bos=bos), 0, run)
        found.append(tokenizer.load(run / "tokenizer.json"))
    assert [each.bos for each in found] == [tokenizer.load(tiny_attn.FOLDER / "tokenizer.json").bos, 300]
    assert found[0].encode(["def return"]) == found[1].encode(["def return"])
    assert found[0].digest != found[1].digest
    sources.saved(dataclasses.replace(paper, bos=512), 0, tmp_path / "later")
    with pytest.raises(Mistake, match=r"^source\.bos: 512 is no token of the tokenizer; legal: 0 to 511\.$"):
        sources.prepare(dataclasses.replace(paper, bos=512), 0, tmp_path / "later")
    mended = dataclasses.replace(paper, bos=300)
    assert sources.saved(mended, 0, tmp_path / "later")  # nothing was made with the other token
    sources.prepare(mended, 0, tmp_path / "later")
    assert tokenizer.load(tmp_path / "later" / "tokenizer.json").bos == 300


def refused(source: Source, run: Path, step: int = 0) -> str:
    """The sentence with which fetching ends."""
    with pytest.raises(Mistake) as mistake:
        fetched(source, run, step)
    text = str(mistake.value)
    assert text.endswith(".")
    assert "\n" not in text
    return text


def test_an_unknown_repository_a_gated_one_and_no_id(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(Source(repos=["o/none"]), tmp_path / "a") == (
        "source.repos: there is no repository o/none on the hub, or it is private and HF_TOKEN is not set."
    )
    hub.put("o/gated", {"config.json": b"{}"}, revision="step0")
    hub.gated.add("o/gated")
    closed = "source.repos: o/gated is gated: accept its terms on its page, then set HF_TOKEN or run `hf auth login`."
    for revision in ("step0", "step{step}"):
        assert refused(Source(repos=["o/gated"], revision=revision), tmp_path / revision) == closed
    assert "is not the id of a repository" in refused(Source(repos=["a/b/c"]), tmp_path / "c")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    said = refused(Source(repos=["o/gated"], revision="step0"), tmp_path / "d")
    assert hub.authorizations == {"Bearer hf_secret"}
    assert "hf_secret" not in said


def test_a_revision_that_is_not_there_or_lacks_the_weights(hub: Hub, tmp_path: Path) -> None:
    hub.put("o/n", {".gitattributes": b"", "config.json": b"{}"}, revision="step3")
    assert "lacks the weights (model.safetensors, pytorch_model.bin" in refused(
        Source(repos=["o/n"], revision="step{step}"), tmp_path / "a", 3
    )
    assert refused(Source(repos=["o/n"], revision="v2"), tmp_path / "b") == "source.repos: o/n has no revision 'v2'."
    assert refused(Source(repos=["o/n"], revision="iter{step}"), tmp_path / "c") == (
        "source.revision: o/n has nothing named 'iter{step}'."
    )


def test_another_kind_of_model_is_named(hub: Hub, tmp_path: Path) -> None:
    hub.put("o/bert", {"config.json": b'{"model_type": "bert"}', "model.safetensors": b""})
    with pytest.raises(Mistake, match=r"config\.json: model kind bert found, expected gpt_neox, gpt2, llama"):
        sources.model(Source(repos=["o/bert"]), 0, tmp_path / "run")


class Trap:
    def __reduce__(self):
        return pytest.fail, ("a checkpoint was executed",)


def test_a_checkpoint_with_code_in_it_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.put("o/evil", {"a_1.pth": packed({"embed.W_E": Trap()})})
    source = Source(repos=["o/evil"], file="a_{step}.pth", model=SHAPE)
    with pytest.raises(Mistake, match=r"it holds code \(_pytest\.outcomes\._Fail\), which is never executed\.$"):
        folder.load(fetched(source, tmp_path / "run", 1))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "source.repos: give either this"),
        ({"repos": ["a/b"], "path": "x"}, "source.repos: give either this"),
        ({"repos": []}, "source.repos: [] must hold at least one"),
        (
            {"repos": ["a/b"], "file": "model.pth"},
            "source.file: 'model.pth' with source.revision 'main' must have {step}",
        ),
        ({"repos": ["a/b"], "file": "{step}", "revision": "{step}"}, "must have {step} once"),
        ({"path": "x", "context": 3}, "source.context: 3 is below"),
        ({"path": "x", "bos": -1}, "source.bos: -1 is below the least legal value, 0."),
        ({"repos": ["a/m", "b/m"]}, "source.repos: of ['a/m', 'b/m'] two end in the same name"),
    ],
)
def test_fields_that_do_not_fit_together(fields: dict[str, object], words: str) -> None:
    with pytest.raises(Mistake) as mistake:
        sources.check(Source(**fields))  # type: ignore[arg-type]
    assert str(mistake.value).startswith(words) or words in str(mistake.value)


def test_a_folder_keeps_the_way_its_files_are_read(paper: Source, tmp_path: Path) -> None:
    assert paper.model
    sources.saved(paper, 0, tmp_path / "run")
    sources.prepare(paper, 0, tmp_path / "run")
    learned = dataclasses.replace(paper.model, positions="learned")
    for changed, said in (
        ({"bos": 5}, "source.bos .*, now 5"),
        ({"tokenizer": "other/tokens"}, "source.tokenizer .*, now other/tokens"),
        ({"model": learned}, "source.model.positions shortformer, now learned"),
    ):
        with pytest.raises(Mistake, match=rf"holds another run \({said}"):
            sources.saved(dataclasses.replace(paper, **changed), 0, tmp_path / "run")


def test_a_folder_keeps_its_run(paper: Source, tmp_path: Path) -> None:
    run = tmp_path / "run"
    sources.saved(paper, 0, run)
    with pytest.raises(Mistake, match=r"holds another run \(source.repos timaeus/tiny.*, now other/one\)"):
        sources.saved(dataclasses.replace(paper, repos=["other/one"]), 0, run)
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "config.yaml").touch()
    with pytest.raises(Mistake, match="holds a run that was trained here"):
        sources.saved(paper, 0, tmp_path / "trained")


def test_a_full_disk_is_told_as_such(paper: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import os

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    sources.saved(paper, 0, tmp_path / "run")
    monkeypatch.setattr("huggingface_hub.file_download.http_get", full)
    with pytest.raises(OSError, match="No space left"):
        fetched(paper, tmp_path / "run", 0)

"""Runs that were made elsewhere, from the configuration to the plan, over a hub on the loopback interface."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hub import Hub, directed
from layouts import SHAPE, TOKENIZER, lens_state, neox, packed, tiny_attn, transformers_files

from rllc import catalogue, composition, making, planning, runs, sweep
from rllc.config import Config, Model, Source
from rllc.data import tokenizer
from rllc.mistake import Mistake
from rllc.zoo import folder

TEXT = "".join(json.dumps({"text": f"def f{number}(x): return x + {number}\n" * 9}) + "\n" for number in range(400))


def config(tmp_path: Path, source: Source, *words: str) -> Config:
    """The configuration that has this source; its data is a file."""
    (tmp_path / "text.jsonl").write_text(TEXT)
    composed = composition.compose(
        [f"root={tmp_path}/root", "data=[files]", f"data.files.path={tmp_path}/text.jsonl", "train.data=files",
         "data.files.pool=24", "grid.steps=null", *words]
    )  # fmt: skip
    return dataclasses.replace(composed, source=source)


def test_from_the_hub_to_the_plan(paper: Source, hub: Hub, tmp_path: Path) -> None:
    asked = config(tmp_path, paper)
    assert asked.elsewhere
    steps = runs.steps(asked)
    assert steps == {"tiny": [0, 1000, 1600]}
    assert runs.model(asked) == SHAPE
    making.prepare(asked)
    assert making.trained(asked)
    (planned,), _ = runs.datasets(asked, SHAPE)
    rows = np.load(tmp_path / "root" / planned.path)
    assert rows.shape == (24, 64)
    assert (rows[:, 0] == 511).all()  # the token that the source says starts a row
    found = runs.checkpoints(asked, steps)
    assert [one.path for one in found] == [f"runs/tiny/checkpoints/step_{step:07d}.json" for step in tiny_attn.STEPS]
    assert [one.weights for one in found] == [folder.describe(tmp_path / "root" / one.path)[1] for one in found]
    sent = list(hub.sent)
    assert runs.checkpoints(asked, runs.steps(asked)) == found
    assert hub.sent == sent


def test_a_finished_plan_needs_no_hub(paper: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = config(tmp_path, paper)
    making.prepare(asked)
    found, data = runs.checkpoints(asked, runs.steps(asked)), runs.datasets(asked, runs.model(asked))
    directed(monkeypatch, "http://127.0.0.1:9", str(tmp_path / "cache"))
    making.prepare(asked)
    assert runs.checkpoints(asked, runs.steps(asked)) == found
    assert runs.datasets(asked, runs.model(asked)) == data


def test_the_nearest_steps_are_taken_and_told_where_that_is_asked(
    paper: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "grid.steps=[0,990,1300,1000,5000]"
    with pytest.raises(Mistake, match=r"step 990 of run tiny is not saved; the nearest saved one is 1000\.$"):
        runs.steps(config(tmp_path, paper, words))
    asked = config(tmp_path, dataclasses.replace(paper, match="nearest"), words)
    assert runs.steps(asked) == {"tiny": [0, 1000, 1600]}
    assert capsys.readouterr().err == (
        "rllc: grid.steps: run tiny lacks 3 of them; nearest: 990 → 1000, 1300 → 1000, 5000 → 1600\n"
    )


def test_several_repositories_are_several_runs(paper: Source, hub: Hub, tmp_path: Path) -> None:
    hub.put("timaeus/tiny-s-2", {"checkpoints/checkpoint_0000500.pth": packed(lens_state(1000))})
    asked = config(tmp_path, dataclasses.replace(paper, repos=["timaeus/tiny", "timaeus/tiny-s-2"]))
    steps = runs.steps(asked)
    assert steps == {"tiny": [0, 1000, 1600], "tiny-s-2": [500]}
    making.prepare(asked)
    found = {(one.run, one.step): one.weights for one in runs.checkpoints(asked, steps)}
    assert found["tiny", 1000] == found["tiny-s-2", 500]
    assert len(set(found.values())) == 3


def test_rows_may_be_shorter_than_the_models_context(paper: Source, tmp_path: Path) -> None:
    asked = config(tmp_path, dataclasses.replace(paper, context=20))
    making.prepare(asked)
    (planned,), twice = runs.datasets(asked, runs.model(asked))
    assert [np.load(tmp_path / "root" / each.path).shape[1] for each in (planned, twice)] == [20, 20]
    asked = config(tmp_path, dataclasses.replace(paper, context=65))
    with pytest.raises(Mistake, match=r"source\.context: 65 is more than the model's n_ctx, 64\."):
        runs.model(asked)


def test_a_vocabulary_larger_than_the_models_is_refused(paper: Source, hub: Hub, tmp_path: Path) -> None:
    documents = [f"{number} {chr(0x4E00 + number)}" * 30 for number in range(3000)]
    tokenizer.train(documents, 600, tmp_path / "large.json")
    hub.put("timaeus/tokens", {"tokenizer.json": (tmp_path / "large.json").read_bytes()})
    asked = config(tmp_path, paper)
    making.prepare(asked)
    with pytest.raises(Mistake, match=r"tokenizer\.json has 600 entries, but the model's d_vocab is 512\."):
        runs.datasets(asked, runs.model(asked))


def test_models_of_two_vocabularies_are_two_sweeps(hub: Hub, tmp_path: Path) -> None:
    for name, size in (("a", 512), ("b", 520)):
        files = transformers_files(neox(0, size), tmp_path / name)
        hub.put(f"o/{name}", {**files, "tokenizer.json": TOKENIZER})
    with pytest.raises(Mistake, match="differ in n_ctx or d_vocab; give each a sweep"):
        runs.model(config(tmp_path, Source(repos=["o/a", "o/b"])))


def test_a_part_that_one_of_the_runs_lacks_is_told_before_anything_is_fetched(hub: Hub, tmp_path: Path) -> None:
    """The second run has two heads a layer where the first has four."""
    for name, heads in (("a", 4), ("b", 2)):
        files = transformers_files(neox(0, heads=heads), tmp_path / name)
        hub.put(f"o/{name}", {**files, "tokenizer.json": TOKENIZER})
    source = Source(repos=["o/a", "o/b"])
    with pytest.raises(
        Mistake, match=r"^run b: grid\.parts: 'L1H3' matches no parameter; .*legal: heads L0H0, L0H1, L1H0, L1H1; names"
    ):
        sweep.check(config(tmp_path, source, "grid.parts=[L1H0,L1H3]"))
    assert not [url for url in hub.sent if "safetensors" in url or "tokenizer" in url]
    with pytest.raises(
        Mistake, match=r"^grid\.parts: 'L1H5' matches no parameter; .*legal: heads L0H0, L0H1, L0H2, L0H3"
    ):
        sweep.check(config(tmp_path, Source(repos=["o/a"]), "grid.parts=[L1H5]"))
    assert sweep.check(config(tmp_path, source, "grid.parts=[heads]")) == {"a": [0], "b": [0]}
    cells = sweep.outline(config(tmp_path, source, "grid.parts=[heads]", "grid.metrics=[llc]"), {"a": [0], "b": [0]})
    assert [sum(cell.task.run == run for cell in cells) for run in "ab"] == [8, 4]


def test_a_source_and_a_path_are_two_runs(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="source: it cannot be used with path= or model=module"):
        composition.compose(["source=paper", f"path={tmp_path}"])


def test_what_a_source_has_is_told_without_its_weights(paper: Source, hub: Hub, tmp_path: Path) -> None:
    asked = config(tmp_path, paper)
    runs.checkpoints(asked, {"tiny": [1000]})
    hub.sent.clear()
    assert catalogue.describe(asked).splitlines() == [
        "tiny: timaeus/tiny",
        "  3 steps: 0, 1000, 1600",
        "  on this machine: 1 step: 1000",
        "  model: n_layers 2, n_heads 8, d_model 64, d_head 8, n_ctx 64, d_vocab 512, positions shortformer",
        "  parameters: 103,808",
        "  parts: 16 heads L0H0 to L1H7; embed, pos, final.w, final.b, unembed, unembed.b, L*.ln1.w, L*.ln1.b, L*.bo",
    ]
    assert not hub.sent
    files = hub.repos["models", "timaeus/tiny"]["main"]
    files["checkpoints/checkpoint_0002000.pth"] = files["checkpoints/checkpoint_0001600.pth"]
    assert "4 steps: 0, 1000, 1600, 2000" in catalogue.describe(asked)  # it looks anew
    assert runs.steps(asked) == {"tiny": [0, 1000, 1600, 2000]}


def test_the_parts_of_a_decoder_and_many_steps_are_told_in_short(hub: Hub, tmp_path: Path) -> None:
    files = transformers_files(neox(0), tmp_path / "made")
    for step in [0, *(2**power for power in range(10)), *range(1000, 6000, 1000)]:
        hub.put("o/neox", files, revision=f"step{step}")
    told = catalogue.describe(config(tmp_path, Source(repos=["o/neox"], revision="step{step}")))
    assert "16 steps: 0, 1, 2, 4, 8, 16, …, 512, 1000, 2000, 3000, 4000, 5000\n  on this machine: 0 steps\n" in told
    assert f"parameters: {sum(array.numel() for array in neox(0).parameters()):,}" in told
    assert "parts: 8 heads L0H0 to L1H3; embed, final.w, final.b, unembed, L*.ln1.w" in told
    assert not [name for name in hub.sent if "safetensors" in name]


def test_the_catalogue_of_a_folder_and_of_a_run_to_be_trained(tmp_path: Path) -> None:
    composed = composition.compose([f"path={tiny_attn.FOLDER}", f"root={tmp_path}"])
    assert "3 steps: 0, 1000, 1600\n  on this machine: all\n" in catalogue.describe(composed)
    composed = composition.compose([f"root={tmp_path}", "train.steps=20", "train.checkpoints.log=0"])
    assert "2 steps: 0, 20\n  on this machine: 0 steps\n" in catalogue.describe(composed)


def test_a_checkpoint_is_gone_before_the_next_is_loaded(
    paper: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gc
    import weakref

    from rllc import work

    words = ["grid.parts=[L0H6]", "grid.metrics=[llc]", "sampler.chains=1", "sampler.draws=2", "sampler.batch=2"]
    asked = config(tmp_path, paper, *words)
    making.prepare(asked)
    data, repeats = runs.datasets(asked, runs.model(asked))
    cells = planning.cells(
        runs.checkpoints(asked, runs.steps(asked)), data, repeats, grid=asked.grid, sampler=asked.sampler
    )
    seen: list[Callable[[], object]] = []
    load = folder.load

    def watched(path: Path) -> tuple[Model, dict[str, torch.Tensor]]:
        gc.collect()
        assert not [one for one in seen if one() is not None]
        found = load(path)
        seen.append(weakref.ref(found[1]["embed"]))
        return found

    monkeypatch.setattr(folder, "load", watched)
    (tmp_path / "root" / "sweeps" / "s").mkdir(parents=True)
    assert work.work(tmp_path / "root" / "sweeps" / "s", cells, name="w") == 0
    assert len(seen) == 3

"""Every mistake of the user's: one line on standard error that begins with "rllc: ", exit code 2, and no result."""

import json
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny import Job, text

from rllc import cli
from rllc.config import Model
from rllc.data import tokenizer
from rllc.zoo import folder


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run the command line in this process and return the one sentence that it says."""

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["rllc", *words])
        monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
        handler = signal.getsignal(signal.SIGTERM)
        try:
            code = cli.main()
        finally:
            signal.signal(signal.SIGTERM, handler)
        err = capfd.readouterr().err
        assert code == 2, err
        assert err.count("\n") == 1, err
        assert err.startswith("rllc: "), err
        return err.removeprefix("rllc: ").rstrip()

    return run


def records(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text().splitlines()]


def nothing_measured(job: Job) -> bool:
    return not any(job.root.glob("sweeps/*/results/*/*")) and not any(job.root.glob("sweeps/*/*.parquet"))


ONE_WORD = {
    "sampler.typo=1": "sampler.typo: there is no such key; legal: lr, nbeta, gamma,",
    "+sampler.typo=1": "sampler.typo: there is no such key; legal: lr,",
    "typo=1": "typo: there is no such key; legal: name, root,",
    "sampler=nope": "sampler: 'nope' is not one of: demo, paper, paper_figures, rmsprop, sgnht, susceptibilities.",
    "sampler=1": "sampler: '1' is not one of: demo,",
    "input=a.csv": "input: 'a.csv' says nothing to `rllc sweep`, only to rllc cluster, compare, report.",
    "merge=[a,b]": "merge: ['a', 'b'] says nothing to `rllc sweep`, only to rllc gather.",
    "devinterp=a.csv": "devinterp: 'a.csv' says nothing to `rllc sweep`, only to rllc gather.",
    "report.traces=L7H0": "report.traces: 'L7H0' is not one of: L0H0, L0H1,",
    "report.stages=[0]": "report.stages: 0 is not between the steps 0 and 20 of run tiny-s0.",
    "report.stages=[10,10]": "report.stages: [10, 10] has a step twice.",
    "data=[nope]": "data: 'nope' is not one of: ",
    "sampler.draws=abc": "sampler.draws: 'abc' is not a whole number.",
    "sampler.draws=1.5": "sampler.draws: 1.5 is not a whole number.",
    "sampler.draws=true": "sampler.draws: True is not a whole number.",
    "sampler.lr=abc": "sampler.lr: 'abc' is not a number.",
    "cluster.per_layer=1": "cluster.per_layer: 1 is not true or false.",
    "grid.steps=150": "grid.steps: 150 is not a list",
    "grid.parts=[L2H9]": "grid.parts: 'L2H9' matches no parameter; legal: heads L0H0, L0H1, L0H2, L1H0, L1H1, L1H2;",
    "grid.parts=[L0H1.x]": "grid.parts: 'L0H1.x' matches no parameter",
    'grid.parts=["!*"]': "grid.parts: '!*' leaves no parameter",
    "grid.steps=[13]": "grid.steps: step 13 of run tiny-s0 is not saved; the nearest saved one is 10.",
    "grid.steps=[-1]": "grid.steps: -1 is below the least legal value, 0.",
    "sampler.nbeta=0": "sampler.nbeta: 0.0 is not a finite number above 0.",
    "sampler.nbeta=-1": "sampler.nbeta: -1.0 is not a finite number above 0.",
    "sampler.nbeta=nan": "sampler.nbeta: nan is not a finite number above 0.",
    "sampler.nbeta=inf": "sampler.nbeta: inf is not a finite number above 0.",
    "sampler.lr=-0.1": "sampler.lr: -0.1 is not a finite number of at least 0.",
    "sampler.lr=nan": "sampler.lr: nan is not a finite number of at least 0.",
    "sampler.gamma=-1": "sampler.gamma: -1.0 is not a finite number of at least 0.",
    "sampler.lr=0.02": "sampler.lr: 0.02 with sampler.gamma 200.0 is unstable by γ alone; lr must be below 4/gamma",
    "sampler.chains=0": "sampler.chains: 0 is below the least legal value, 1.",
    "sampler.burn_in=-1": "sampler.burn_in: -1 is below the least legal value, 0.",
    "sampler.reference=none": "sampler.reference: 'none' is not one of: paired, batches.",
    "sampler.batch=33": "data.files: its text gives 32 rows of 16 tokens for the split 'pool', but 33 are needed",
    "data.files.path=missing.txt": "data.files.path: 'missing.txt' does not exist.",
    "data.files.where=x": "data.files.where: 'x' is not of the form",
    "path=/dev": "run: /dev has no checkpoints named",
    "cluster.k=4": "cluster.k: 4 is more than the 3 parts of scope L0",
    "cluster.k=1": "cluster.k: 1 is below the least legal value, 2.",
    "cluster.k_range=[]": "cluster.k_range: [] must hold at least one value, and none twice.",
    "cluster.primary.method=ward": "cluster.primary.method: 'ward' is not one of: kmeans.",
    "root=/dev/null/x": "name: /dev/null/x/sweeps/tiny cannot be written (Not a directory); choose another root=",
    "sampler.lr=[": "'sampler.lr=[' is not an override; write key=value",
    "sampler.lr": "'sampler.lr' is not an override; write key=value",
    "--typo": "flag: '--typo' is not one of: -h, --help,",
    "stages=[nope]": "stages: 'nope' is not one of: train, plan, launch, gather, cluster, report.",
    "stages=[]": "stages: [] must hold at least one value, and none twice.",
    "train.seeds=[0,0]": "train.seeds: [0, 0] must hold at least one value, and none twice.",
    "grid.seeds=[1,1]": "grid.seeds: [1, 1] must hold at least one value, and none twice.",
    "train.data=nope": "train.data: 'nope' is not one of: files.",
    "grid.datasets=[nope]": "grid.datasets: 'nope' is not one of: files.",
    "name=a/b": "name: 'a/b' is not a name",
    "~sampler.lr": "sampler.lr: no value is given.",
    "sampler.lr=1e-3,2e-3": "Ambiguous value for argument 'sampler.lr=1e-3,2e-3'",
    "train.steps=25": "run: ",
}  # fmt: skip


@pytest.mark.parametrize("word", ONE_WORD)
def test_one_word_is_wrong(word: str, job: Job, said: Callable[..., str]) -> None:
    assert said("sweep", *job.words(word)).startswith(ONE_WORD[word])
    assert nothing_measured(job)


@pytest.mark.parametrize("verb", ["status", "gather", "cluster", "report"])
def test_a_sweep_that_does_not_exist(verb: str, job: Job, said: Callable[..., str]) -> None:
    assert said(verb, *job.words("name=nothing")).startswith("name: ")
    assert not (job.root / "sweeps").exists()


def test_a_verb_that_does_not_exist(said: Callable[..., str]) -> None:
    assert said("swep") == f"verb: 'swep' is not one of: {', '.join(cli.VERBS)}."


def test_data_without_its_path(said: Callable[..., str], tmp_path: Path) -> None:
    assert said("sweep", f"root={tmp_path}", "data=[files]", "train.data=files") == (
        "data.files.path: no value is given."
    )


def test_a_key_of_a_group_that_is_not_chosen(said: Callable[..., str], tmp_path: Path) -> None:
    assert said("sweep", f"root={tmp_path}", "data.files.path=x").startswith("data.files.path: the groups")


def test_the_key_is_named_by_the_whole_command_too(job: Job) -> None:
    done = job.do("sweep", "sampler.typo=1")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("rllc: sampler.typo: there is no such key")
    assert done.stderr.count("\n") == 1


TEXTS = {
    "empty": ("text.txt", b"", "data.files.path: "),
    "blank": ("text.txt", b" \n\n \n", "data.files.path: "),
    "binary": ("text.txt", b"some text\n\0\1\2 more", "data.files.path: {path} is not text: byte 10 is NUL"),
    "latin": ("text.txt", b"caf\xe9 au lait", "data.files.path: {path} is not text: byte 3 is NUL or not UTF-8."),
    "broken line": (
        "text.jsonl", b'{"text": "a"}\n{"text": "b\n', "data.files.path: {path}, line 2 is not valid JSON"
    ),
    "no field": ("text.jsonl", b'{"content": "a"}\n', "data.files.text: {path}, line 1 has no field 'text'"),
    "no Parquet": ("text.parquet", b"PAR1 but not really", "data.files.path: {path} is truncated or damaged"),
    "unknown kind": ("text.xyz", b"text", "data.files.path: "),
    "too little": ("text.txt", b"two words", "model.d_vocab: 300 is too large: the text gives only"),
}  # fmt: skip


@pytest.mark.parametrize("what", TEXTS)
def test_a_text_that_cannot_be_used(what: str, fresh: Job, said: Callable[..., str], tmp_path: Path) -> None:
    name, content, sentence = TEXTS[what]
    (tmp_path / name).write_bytes(content)
    words = fresh.words(**{"data.files.path": tmp_path / name})
    assert said("sweep", *words).startswith(sentence.format(path=tmp_path / name))
    assert nothing_measured(fresh)


def test_too_little_text_for_the_chains_is_found_before_the_training(fresh: Job, said: Callable[..., str]) -> None:
    assert said("sweep", *fresh.words("sampler.batch=33")).startswith("data.files: its text gives 32 rows")
    assert not any(fresh.root.glob("runs/*/checkpoints/*"))


def test_a_sweep_of_another_configuration(job: Job, said: Callable[..., str]) -> None:
    assert job.do("sweep", "stages=[plan]").returncode == 0
    before = (job.sweep / "plan.jsonl").read_bytes()
    sentence = said("sweep", *job.words("sampler.draws=4", "stages=[plan,launch]"))
    assert "holds numbers of another configuration (sampler.draws 3, now 4); choose another name=." in sentence
    assert (job.sweep / "plan.jsonl").read_bytes() == before
    assert nothing_measured(job)


def test_a_run_with_other_settings_of_training(job: Job, said: Callable[..., str]) -> None:
    sentence = said("sweep", *job.words("train.lr=0.02"))
    assert sentence.endswith("was trained with other settings: train.lr 0.01, now 0.02; choose another run= name.")


def test_a_tokenizer_of_another_run(job: Job, said: Callable[..., str], tmp_path: Path) -> None:
    tokenizer.train(records(text(tmp_path / "other.jsonl", seed=1)), 300, job.run_folder / "tokenizer.json")
    assert "was trained with other settings: tokenizer" in said("sweep", *job.words())


@pytest.fixture
def foreign(job: Job, tmp_path: Path) -> Path:
    """The folder of a run that was not trained here."""
    place = tmp_path / "foreign"
    shutil.copytree(job.run_folder / "checkpoints", place / "checkpoints")
    shutil.copy(job.run_folder / "tokenizer.json", place)
    return place


def test_a_truncated_checkpoint(job: Job, foreign: Path, said: Callable[..., str]) -> None:
    file = foreign / "checkpoints" / "step_0000010.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    assert said("sweep", *job.words(f"path={foreign}")).startswith(f"run: {file} is not a whole safetensors file")
    assert nothing_measured(job)


def test_a_checkpoint_of_another_architecture(job: Job, foreign: Path, said: Callable[..., str]) -> None:
    from rllc.models import decoder

    model = Model(n_layers=1, n_heads=2, d_model=8, d_head=4, n_ctx=16, d_vocab=300, positions="shortformer")
    file = foreign / "checkpoints" / "step_0000010.safetensors"
    folder.save(file, model, decoder.init(model, 0))
    assert said("sweep", *job.words(f"path={foreign}")) == f"run: {file} is of another architecture than step 0."
    assert nothing_measured(job)


def test_a_checkpoint_whose_arrays_are_not_its_model(job: Job, foreign: Path, said: Callable[..., str]) -> None:
    from safetensors.numpy import load_file, save_file

    file = foreign / "checkpoints" / "step_0000010.safetensors"
    model, _ = folder.describe(file)
    arrays = {**load_file(file), "embed.W_E": np.zeros((300, 9), np.float32)}
    save_file(arrays, file, {"model": json.dumps(vars(model))})
    assert "embed.W_E has shape (300, 9)" in said("sweep", *job.words(f"path={foreign}"))


def test_a_tokenizer_of_another_vocabulary(job: Job, foreign: Path, said: Callable[..., str]) -> None:
    tokenizer.train(records(job.text), 310, foreign / "tokenizer.json")
    assert said("sweep", *job.words(f"path={foreign}")) == (
        f"run: {foreign}/tokenizer.json has 310 entries, but the model's d_vocab is 300."
    )
    assert nothing_measured(job)


def test_no_tokenizer(job: Job, foreign: Path, said: Callable[..., str]) -> None:
    (foreign / "tokenizer.json").unlink()
    sentence = said("sweep", *job.words(f"path={foreign}"))
    assert sentence.startswith(f"tokenizer: {foreign}/tokenizer.json cannot be read")


@pytest.mark.parametrize("verb", ["sweep", "train", "cluster"])
def test_a_root_that_is_a_file(verb: str, fresh: Job, said: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    sentence = said(verb, *fresh.words(f"root={tmp_path}/file"))
    assert str(tmp_path / "file") in sentence


def test_a_mistake_in_one_job_of_many_begins_none(job: Job, said: Callable[..., str]) -> None:
    assert said("sweep", *job.words("-m", "sampler.gamma=100,-1")).startswith("sampler.gamma: -1.0")
    assert not any(job.root.glob("sweeps/*/"))


@pytest.mark.parametrize("table", ["nope.csv", "."])
def test_a_table_that_is_no_file(said: Callable[..., str], tmp_path: Path, table: str) -> None:
    sentence = f"input: '{tmp_path / table}' is not a file; give a .csv or .parquet table of curves."
    assert said("cluster", f"root={tmp_path}", f"input={tmp_path / table}") == sentence
    assert said("report", f"root={tmp_path}", f"input={tmp_path / table}") == sentence

import dataclasses

import pytest
from tiny import MODEL, Job

from rllc import composition, labels, plan, runs, store, sweep, work
from rllc.config import Model
from rllc.mistake import Mistake
from rllc.models import decoder
from rllc.zoo import folder

OWN = "data.files.labels={checkpoint: tiny-s0@20, kind: kl}"


def planned(job: Job, *words: str) -> list[plan.Cell]:
    config = composition.compose(job.words("grid.parts=[L0H1,L1H2]", "grid.metrics=[llc,prev_token]", *words))
    sweep.make_plan(config, runs.steps(config))
    return plan.read(job.sweep)


def test_a_sweep_is_measured_against_the_labels_and_says_so(job: Job) -> None:
    """The run's last step labels the text: there KL is 0 and only rises, at the first step it can fall."""
    cells = planned(job, OWN)
    digest = folder.describe(folder.checkpoints(job.run_folder)[20])[1]
    for cell in cells:
        assert cell.task.loss == (f"kl:{digest}" if cell.task.metric == "llc" else "")
        assert bool(cell.labels) == (cell.task.metric == "llc")
    assert work.work(job.sweep, plan.read(job.sweep), name="w") == 0
    found = [store.get(job.sweep, cell.task.key) for cell in cells if cell.task.metric == "llc"]
    assert {each.task.step for each in found} == {0, 10, 20}
    for each in found:
        if each.task.step == 20:
            assert (abs(each.loss_CS[:, 0]) == 0).all()
            assert each.loss_CS.min() > -1e-6
            assert each.value > 0


def test_other_labels_are_another_task_and_no_labels_the_one_of_old(job: Job) -> None:
    keys = [
        {cell.task.key for cell in planned(job, f"name={name}", *words) if cell.task.metric == "llc"}
        for name, words in (("tiny", []), ("tiny", []))
    ]
    assert keys[0] == keys[1]
    config = composition.compose(job.words(OWN))
    with pytest.raises(Mistake, match=r"holds numbers of another configuration \(loss on files , now kl:"):
        sweep.make_plan(config, runs.steps(config))


@pytest.mark.parametrize(
    ("checkpoint", "sentence"),
    [
        ("nowhere.safetensors", "'nowhere.safetensors' is neither a file nor run@step of a run in "),
        ("tiny-s0@15", "step 15 of run tiny-s0 is not saved; saved are 0, 10, 20"),
        ("wide.safetensors", "has d_vocab 301, but the model measured has 300"),
        ("brief.safetensors", "has n_ctx 15, but the model measured has 16"),
    ],
)
def test_labels_that_do_not_fit_are_refused(job: Job, checkpoint: str, sentence: str) -> None:
    shape = Model(**MODEL, positions="shortformer")
    for name, model in (
        ("wide", dataclasses.replace(shape, d_vocab=301)), ("brief", dataclasses.replace(shape, n_ctx=15))
    ):  # fmt: skip
        folder.save(job.root / f"{name}.safetensors", model, decoder.init(model, 0))
    where = checkpoint if "@" in checkpoint or "nowhere" in checkpoint else str(job.root / checkpoint)
    config = composition.compose(job.words(f"data.files.labels={{checkpoint: '{where}'}}"))
    with pytest.raises(Mistake, match=f"^data.files.labels.checkpoint: .*{sentence}"):
        labels.find(config, "files", shape, job.run_folder / "tokenizer.json")


def test_labels_of_another_tokenizer_are_refused(job: Job) -> None:
    config = composition.compose(job.words(OWN))
    other = job.root / "tokenizer.json"
    other.write_text((job.run_folder / "tokenizer.json").read_text() + " ")
    with pytest.raises(Mistake, match=r"was trained on the tokens of .*, which is not the tokenizer"):
        labels.find(config, "files", Model(**MODEL, positions="shortformer"), other)


def test_labels_need_the_backend_that_has_them(job: Job) -> None:
    with pytest.raises(Mistake, match=r"sampler.backend: jax cannot be used with labels; legal: torch"):
        composition.compose(job.words(OWN, "sampler.backend=jax"))

import numpy as np
import pytest
import torch
from pyarrow import parquet

from rllc import composition, kept, plan, runs, store, sweep, work
from rllc.config import Model
from rllc.metrics import llc, token_losses
from rllc.mistake import Mistake
from rllc.models import decoder
from rllc.models.layout import names
from rllc.models.pool import Pool
from rllc.task import Sampler, Task

MODEL = Model(2, 4, 16, 4, 12, 40, "shortformer")
SAMPLER = Sampler(
    lr=1e-3, nbeta=30, gamma=200, chains=3, draws=21, burn_in=4, every=2, batch=5, dtype="float64"
)  # fmt: skip


def pool_of():
    weights = {name: array.double() for name, array in decoder.init(MODEL, 0).items()}
    tokens = torch.from_numpy(np.random.default_rng(0).integers(40, size=(30, 12)))
    return Pool(weights, MODEL, tokens, chains=3, batch=5)


def task_of(part):
    return Task("r", "w", 7, part, "d", "x", "llc", 0, SAMPLER)


@pytest.mark.parametrize("part", ["L1H2", "L0H1", "L0*", "unembed"])
def test_the_table_is_the_mean_over_chains_and_draws_of_each_tokens_loss(part, tmp_path, monkeypatch):
    """The oracle: the whole model in plain torch at the weights that the chains had at draws 0, 10 and 20."""
    seen = []
    original = token_losses.Watched.losses

    def spy(self, live, rows_CB):
        seen.append([array.detach().clone() for array in live])
        return original(self, live, rows_CB)

    monkeypatch.setattr(token_losses.Watched, "losses", spy)
    pool = pool_of()
    got = token_losses.measure(task_of(part), pool, rows=6, path=tmp_path / "t.parquet")
    assert np.allclose(got.loss_CS, llc.measure(task_of(part), pool_of()).loss_CS, atol=1e-7)
    places = {name: (stack, at) for name, stack, at in names(MODEL)}
    chosen = llc.restrict(pool, part).names

    def each(live, chain):
        weights = {name: array.clone() for name, array in pool.weights.items()}
        for name, array in zip(chosen, live, strict=True):
            stack, at = places[name]
            weights[stack][... if at is None else at] = array[chain]
        x = decoder.embed(weights, pool.tokens_NL[None, :6], MODEL)
        for index in range(2):
            x = decoder.layer(weights, index, x, MODEL)
        last = decoder.last(weights, x, MODEL)[0]
        log_p = (last @ weights["unembed"] + weights["unembed.b"]).log_softmax(-1)
        return -log_p.gather(-1, pool.tokens_NL[:6, 1:, None])[..., 0]

    draws = [seen[4 + 2 * draw] for draw in (0, 10, 20)]
    expected = sum(each(live, chain) for live in draws for chain in range(3)) / 9
    expected -= each([array.expand(3, *array.shape) for array in llc.restrict(pool, part).start], 0)
    table = parquet.read_table(tmp_path / "t.parquet")
    assert table["excess"].to_numpy().reshape(6, 11) == pytest.approx(expected.numpy(), abs=1e-7)
    assert np.array_equal(table["token"].to_numpy().reshape(6, 11), pool.tokens_NL[:6, 1:].numpy())
    assert table["position"].to_pylist() == list(range(1, 12)) * 6
    assert table["row"].to_pylist() == [row for row in range(6) for _ in range(11)]
    assert abs(expected).max() > 1e-4


def test_a_sweep_keeps_what_is_asked_and_nothing_else(job):
    words = ["grid.parts=[L0H1,L1H2]", "grid.metrics=[llc,prev_token]", "grid.keep=[L1H2]"]
    config = composition.compose(job.words(*words))
    sweep.make_plan(config, runs.steps(config))
    assert work.work(job.sweep, plan.read(job.sweep), name="w") == 0
    cells = plan.read(job.sweep)
    asked = {cell.task.key for cell in cells if cell.task.metric == "llc" and cell.task.part == "L1H2"}
    assert {path.stem for path in (job.sweep / "tokens").glob("*/*")} == asked
    assert asked < store.keys(job.sweep)
    with pytest.raises(Mistake, match=r"grid.keep: L0H1 is planned here without its token losses"):
        sweep.make_plan(composition.compose(job.words(*words, "grid.keep=[L0H1]")), runs.steps(config))


def test_the_size_is_bounded_before_any_work():
    cells = [
        plan.Cell(Task("r", "w", step, "L1H2", "d", "x", "llc", 0, SAMPLER), "c", "r", 1.0) for step in range(2100)
    ]
    assert sum(cell.keep for cell in kept.mark(cells[:2000], ["L1H2"], 1024, [])) == 2000
    with pytest.raises(Mistake, match=r"2100 cells would keep 1,049 MiB of token losses, more than 1,024 MiB"):
        kept.mark(cells, ["L1H2"], 1024, [])
    with pytest.raises(Mistake, match=r"grid.keep: 'L1H3' is not one of: L1H2"):
        kept.mark(cells, ["L1H3"], 1024, [])


@pytest.mark.parametrize("word", ["data.files.labels={checkpoint: x}", "sampler.backend=jax"])
def test_what_cannot_keep_tokens_is_refused(job, word):
    with pytest.raises(Mistake, match=r"grid.keep"):
        composition.compose(job.words("grid.keep=[L1H2]", word))

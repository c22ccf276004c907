import numpy as np
import pytest

from rllc.data import batches

ROWS = np.arange(50 * 64).reshape(50, 64).astype(np.uint16)  # every token tells its row and place
ROWS[:, 0] = 9999


def test_without_repeats_a_batch_is_rows_uniform_with_replacement() -> None:
    batch = np.concatenate([batches.training(ROWS, seed=0, step=s, batch=32, repeats=0.0) for s in range(200)])
    assert batch.dtype == np.int64
    chosen = batch[:, 1] // 64
    assert (batch == ROWS[chosen]).all()
    counts, expected = np.bincount(chosen, minlength=50), 200 * 32 / 50
    assert ((counts - expected) ** 2 / expected).sum() < 97  # chi-square, 49 degrees of freedom, p = 1e-4


@pytest.mark.parametrize(("n_ctx", "low", "high"), [(64, 16, 32), (128, 16, 32), (16, 4, 8), (8, 2, 4), (2, 1, 1)])
def test_repeats_tile_one_real_span(n_ctx: int, low: int, high: int) -> None:
    rows = np.arange(50 * n_ctx).reshape(50, n_ctx).astype(np.uint32)
    batch = batches.training(rows, seed=3, step=7, batch=2000, repeats=1.0)
    lengths, starts = set(), set()
    for row in batch:
        length = int((row[1:] == row[1]).nonzero()[0][1]) if n_ctx > 2 else 1
        first = row[1] % n_ctx
        assert (row[1:] == row[1] + np.arange(n_ctx - 1) % length).all()
        assert row[0] == row[1] // n_ctx * n_ctx
        assert 1 <= first <= n_ctx - length
        lengths.add(length)
        starts.add(int(first))
    assert lengths == set(range(low, high + 1))
    assert min(starts) == 1
    assert max(starts) == n_ctx - low


def test_the_share_of_repeats_and_the_rows_behind_it() -> None:
    plain, some = (batches.training(ROWS, seed=0, step=1, batch=4000, repeats=share) for share in (0.0, 0.4))
    replaced = (plain != some).any(axis=1)
    assert abs(replaced.mean() - 0.4) < 5 * (0.4 * 0.6 / 4000) ** 0.5
    assert (plain[:, 1] // 64 == some[:, 1] // 64).all()


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    def draw(seed: int, step: int) -> list[list[int]]:
        return batches.training(ROWS, seed=seed, step=step, batch=8, repeats=0.5).tolist()

    ahead = [draw(0, step) for step in range(5)]
    assert [draw(0, step) for step in reversed(range(5))] == ahead[::-1]
    assert len({str(batch) for batch in [*ahead, draw(1, 0), draw(1, 1)]}) == 7


def _rows(**changed: object) -> list[list[int]]:
    arguments = {"seed": 0, "run": "r", "dataset": "d", "chain": 0, "steps": 20, "batch": 8, **changed}
    return batches.estimation(1000, **arguments).tolist()  # type: ignore[arg-type]


def test_the_rows_of_a_chain_depend_on_its_names_alone() -> None:
    in_order = [_rows(chain=chain) for chain in range(4)]
    assert [_rows(chain=chain) for chain in (3, 1, 0, 2)] == [in_order[i] for i in (3, 1, 0, 2)]
    others = [_rows(seed=1), _rows(run="q"), _rows(dataset="e"), _rows(run='r", "d'), *in_order]
    assert len({str(rows) for rows in others}) == 8


def test_fewer_steps_are_a_prefix_of_more() -> None:
    assert _rows(steps=7) == _rows(steps=20)[:7]


def test_estimation_rows_are_uniform_and_independent() -> None:
    drawn = batches.estimation(20, seed=5, run="r", dataset="d", chain=1, steps=2000, batch=10)
    assert drawn.dtype == np.int64
    assert drawn.shape == (2000, 10)
    counts = np.bincount(drawn.ravel(), minlength=20)
    assert ((counts - 1000) ** 2 / 1000).sum() < 51  # chi-square, 19 degrees of freedom, p = 1e-4
    repeated = (drawn[1:] == drawn[:-1]).mean()
    assert abs(repeated - 1 / 20) < 5 * (0.05 * 0.95 / 19990) ** 0.5


def test_the_stream_is_fixed_between_versions() -> None:
    assert batches.estimation(1000, seed=0, run="r", dataset="d", chain=0, steps=1, batch=4).tolist() == [
        [153, 559, 933, 418]
    ]

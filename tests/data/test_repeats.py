from pathlib import Path

import numpy as np
import pytest

from rllc.data import repeats


@pytest.mark.parametrize(("n_ctx", "half"), [(64, 31), (65, 32), (3, 1), (4, 1)])
def test_the_second_half_says_the_first_again(tmp_path: Path, n_ctx: int, half: int) -> None:
    made = repeats.build(40, n_ctx, rows=50, seed=0, folder=tmp_path)
    array = made.array()
    assert (made.name, array.shape, array.dtype) == ("repeats", (50, n_ctx), np.uint16)
    assert (array[:, 0] == 39).all()
    assert (array[:, 1 : 1 + half] == array[:, 1 + half : 1 + 2 * half]).all()
    assert array[:, 1:].max() <= 38


def test_tokens_are_uniform_over_all_but_bos(tmp_path: Path) -> None:
    for bos in (None, 0, 5):
        array = repeats.build(11, 201, rows=200, seed=1, folder=tmp_path, bos=bos).array()
        start = 10 if bos is None else bos
        assert (array[:, 0] == start).all()
        counts = np.bincount(array[:, 1:101].ravel(), minlength=11)
        assert counts[start] == 0
        expected = 200 * 100 / 10
        others = np.delete(counts, start)
        assert ((others - expected) ** 2 / expected).sum() < 33.7  # chi-square, 9 degrees of freedom, p = 1e-4


def test_the_seed_decides(tmp_path: Path) -> None:
    one, again, two = (repeats.build(99, 16, rows=8, seed=seed, folder=tmp_path) for seed in (0, 0, 1))
    assert one == again
    assert one.digest != two.digest

from dataclasses import replace

import numpy as np
import pytest

from rllc import bootstrap
from rllc.trajectories import Trajectories


def curves(chain_PDTC: np.ndarray) -> Trajectories:
    parts, datasets, steps, chains = chain_PDTC.shape
    error_PDT = chain_PDTC.std(axis=3, ddof=1) / np.sqrt(chains)
    names = tuple(f"L0H{p}" for p in range(parts)), tuple("ab"[:datasets]), tuple(range(steps))
    return Trajectories("r", "llc", *names, chain_PDTC.mean(axis=3), error_PDT, (), chain_PDTC)


def test_draws_of_the_chains_have_the_estimates_mean_and_standard_error():
    rng = np.random.default_rng(0)
    given = curves(rng.normal(size=(2, 2, 3, 4)) * np.array([0.1, 3]).reshape(2, 1, 1, 1) + 7)
    draw_BPDT = bootstrap.draws(given, 40_000, seed=1)
    assert bootstrap.how(given) == "chains"
    assert np.allclose(draw_BPDT.std(axis=0), given.error_PDT, rtol=0.03)
    assert np.all(abs(draw_BPDT.mean(axis=0) - given.value_PDT) < 4 * given.error_PDT / 200)


def test_what_chains_have_in_common_stays_in_common_and_datasets_move_apart():
    shared_C = np.random.default_rng(0).normal(size=8)
    chain_PDTC = 5 + shared_C * np.ones((3, 2, 4, 1))
    draw_BPDT = bootstrap.draws(curves(chain_PDTC), 500, seed=0) - 5 - shared_C.mean()
    assert np.allclose(draw_BPDT, draw_BPDT[:, :1, :, :1])
    assert abs(np.corrcoef(draw_BPDT[:, 0, 0, 0], draw_BPDT[:, 0, 1, 0])[0, 1]) < 0.15


def test_errors_alone_give_independent_normal_draws_and_unknown_ones_none():
    given = replace(curves(np.random.default_rng(0).normal(size=(2, 1, 3, 4))), chain_PDTC=None)
    given.error_PDT[0, 0, 1] = np.nan
    draw_BPDT = bootstrap.draws(given, 20_000, seed=0)
    assert bootstrap.how(given) == "errors"
    assert np.allclose(draw_BPDT.std(axis=0), np.nan_to_num(given.error_PDT), rtol=0.04)
    assert abs(np.corrcoef(draw_BPDT[:, 0, 0, 0], draw_BPDT[:, 1, 0, 0])[0, 1]) < 0.05


@pytest.mark.parametrize("error", [np.nan, 0.0])
def test_without_errors_there_are_no_draws(error):
    given = replace(curves(np.ones((2, 1, 3, 4))), chain_PDTC=None, error_PDT=np.full((2, 1, 3), error))
    assert bootstrap.how(given) == "none"
    assert bootstrap.draws(given, 10, seed=0).shape == (0, 2, 1, 3)


def test_no_draws_asked_for_are_no_draws():
    assert bootstrap.draws(curves(np.random.default_rng(0).normal(size=(2, 1, 3, 4))), 0, seed=0).shape[0] == 0

import dataclasses
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")

import jax.numpy as jnp
from jax_quadratic import Quadratic as Losses
from quadratic import Quadratic, rotated

from rllc.backends import installed
from rllc.backends import jax as backend
from rllc.backends import torch as other
from rllc.mistake import Mistake
from rllc.task import Sampler

HESSIAN = rotated([0.7, 3.9, 6.6, 21.8])
SLOPE = np.array([1.0, -2.0, 0.5, 0.3])
NOISE_NR = np.random.default_rng(2).standard_normal((64, 4))
SAMPLER = Sampler(lr=1e-3, nbeta=30, gamma=200, chains=3, draws=20, burn_in=0, batch=2, dtype="float64")
ROWS_CSB = np.random.default_rng(3).integers(64, size=(3, 20, 2))


def quadratic(form=None, noise_NR=NOISE_NR, dtype="float64"):
    made = Losses(HESSIAN, SLOPE, noise_NR)
    frozen = {name: array.astype(dtype) for name, array in made.frozen.items()}
    return backend.Potential([array.astype(dtype) for array in made.start], form, frozen, Losses.loss, len(noise_NR))


def run(potential, sampler=SAMPLER, **options):
    return backend.run(potential, sampler, ROWS_CSB, **{"noise_seeds": [1, 2, 3], **options})


def test_acceptance_is_that_of_torch():
    ours = run(quadratic(), noise=0.0)
    theirs = other.run(Quadratic(HESSIAN, SLOPE, NOISE_NR), SAMPLER, ROWS_CSB, noise_seeds=[1, 2, 3], noise=0.0)
    np.testing.assert_allclose(ours.accept_CS, theirs.accept_CS, rtol=1e-9, atol=1e-12)
    assert (ours.accept_CS[:, 0] == 0).all()
    assert abs(ours.accept_CS).max() > 1e-3


def test_one_program_serves_all_numbers_data_and_seeds():
    run(quadratic("counted"))
    before = backend._chains._cache_size()
    first = run(quadratic("counted"), dataclasses.replace(SAMPLER, lr=2e-3, nbeta=10.0, gamma=50.0))
    second = run(quadratic("counted", -NOISE_NR), noise_seeds=[2**63 - 1, 2**40, 7])
    assert backend._chains._cache_size() == before
    run(quadratic("another form"))
    assert backend._chains._cache_size() == before + 1
    assert not np.isclose(first.excess_CS[:, 1:], second.excess_CS[:, 1:]).any()


def test_every_bit_of_a_seed_counts():
    ends = [run(quadratic(), noise_seeds=[5, 5 + 2**32, 5 + 2**62]).end_CD for _ in range(2)]
    assert np.array_equal(*ends)
    assert not np.isclose(ends[0][0], ends[0][1:]).any()


def test_a_row_is_evaluated_at_the_start_once_whoever_asks(monkeypatch):
    asked, chains = [], backend._chains

    def counted(program, given, rows_SCB, count, moves):
        if not moves:
            asked.append(np.asarray(rows_SCB)[:count])
        return chains(program, given, rows_SCB, count, moves)

    monkeypatch.setattr(backend, "_chains", counted)
    first = quadratic()
    run(first)
    assert set(np.unique(np.concatenate(asked))) == set(np.unique(ROWS_CSB))
    run(dataclasses.replace(first, start=list(first.start)))
    assert len(asked) == 1
    ((table_N),) = first.reference.values()
    assert np.isnan(np.delete(table_N, np.unique(ROWS_CSB))).all()


def test_more_rows_than_one_run_has_are_evaluated_in_several():
    rows_CSB = np.arange(8).reshape(1, 4, 2)
    potential = quadratic()
    chains = [np.full(rows_CSB.shape, np.nan), rows_CSB + 3]

    def fake(rows_SCB, steps, moves):
        del moves
        return None, np.where(np.arange(len(rows_SCB))[:, None, None] < steps, rows_SCB, np.nan) / 8, None

    sampler = dataclasses.replace(SAMPLER, chains=1, draws=4)
    program = backend._Program(potential.loss, None, sampler)
    small = np.ascontiguousarray(chains[1].swapaxes(0, 1), dtype=np.int32)
    assert np.array_equal(backend._reference(potential, program, small, fake), small / 8)
    wide = np.arange(60, dtype=np.int32).reshape(6, 5, 2)
    assert np.array_equal(backend._reference(potential, program, wide, fake), wide / 8)


def test_double_precision_leaves_single_precision_alone():
    single = dataclasses.replace(SAMPLER, dtype="float32")
    double = run(quadratic(), noise=0.0)
    found = run(quadratic(dtype="float32"), single, noise=0.0)
    assert jnp.ones(1).dtype == np.float32
    assert (double.end_CD.dtype, found.end_CD.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(found.excess_CS, double.excess_CS, atol=1e-5)
    assert (found.excess_CS != double.excess_CS).any()


def test_a_chain_that_runs_away_is_told_and_spoils_no_other():
    wild = NOISE_NR.copy()
    wild[0] = np.inf
    rows_CSB = ROWS_CSB.clip(1)
    rows_CSB[1, 5, 0] = 0
    trace = backend.run(quadratic(noise_NR=wild), SAMPLER, rows_CSB, noise_seeds=[1, 2, 3])
    assert not np.isfinite(trace.excess_CS[1, 5:]).any()
    assert np.isfinite(trace.excess_CS[[0, 2]]).all()
    assert np.isfinite(trace.end_CD).all(1).tolist() == [True, False, True]


def test_a_missing_package_is_named_with_its_remedy(monkeypatch):
    asked = dataclasses.replace(SAMPLER, backend="jax")
    installed.check(asked)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)  # noqa: ARG005
    installed.check(SAMPLER)
    with pytest.raises(Mistake, match=r"^sampler.backend: jax is not installed; pip install 'rllc\[jax\]'\.$"):
        installed.check(asked)


@pytest.mark.slow
def test_processes_give_the_same_bits_and_share_the_compiled_program(tmp_path):
    code = """
import sys
import rllc.status, rllc.cli, rllc.metrics.llc
assert "jax" not in sys.modules
import test_jax
print(test_jax.run(test_jax.quadratic()).end_CD.tobytes().hex())
"""
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[2])])
    keep_all = {"RLLC_CACHE": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    environment = {**os.environ, **keep_all, "PYTHONPATH": path}
    runs, files = [], []
    for _ in range(2):
        runs.append(subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True))
        files.append(sorted((tmp_path / "jax").glob("*_chains*-cache")))
    assert [run.stderr for run in runs] == ["", ""]
    assert runs[0].stdout == runs[1].stdout != ""
    assert files[0] == files[1] != []
    assert runs[0].stdout.strip() == run(quadratic()).end_CD.tobytes().hex()

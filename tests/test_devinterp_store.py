import csv
import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from layouts import neox

from rllc import devinterp_store, plan, store, trajectories
from rllc.cli import main
from rllc.mistake import Mistake
from rllc.task import Estimate

pytestmark = [
    pytest.mark.slow,  # it samples with devinterp first
    pytest.mark.skipif(importlib.util.find_spec("devinterp") is None, reason="devinterp is not installed"),
]
OPTIONS = {"lr": 1e-3, "n_beta": 30.0, "localization": 200.0, "num_chains": 3, "num_draws": 7, "num_burnin_steps": 4,
           "num_steps_bw_draws": 2, "batch_size": 4, "num_init_loss_batches": 5, "device": "cpu"}  # fmt: skip


def sampled(path: Path, mask: str, seed: int = 100, **options: Any) -> Any:
    """Sample a head of a small model with devinterp's own call, which writes the store; what it makes of it."""
    from datasets import Dataset
    from devinterp.slt.llc import llc
    from devinterp.slt.weight_restrictions import create_param_masks

    ids = torch.randint(0, 512, (64, 16), generator=torch.Generator().manual_seed(1))
    data = Dataset.from_dict({"input_ids": ids.tolist()}).with_format("torch")
    model = neox(0)
    options = {**OPTIONS, **options, "init_seed": seed, "output_path": path}
    return llc(model, data, {}, param_masks=create_param_masks(model, mask), **options)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Stores of two heads, and what devinterp says of them."""
    folder = tmp_path_factory.mktemp("stores")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.showwarning", lambda *_, **__: None)
        found = {mask: sampled(folder / f"{mask}.zarr", mask) for mask in ("l0h1", "l1h3")}
    return folder, found


def table(folder: Path, rows: list[tuple[object, ...]]) -> Path:
    path = folder / "stores.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([devinterp_store.COLUMNS, *rows])
    return path


def of(path: Path) -> Estimate:
    stored = devinterp_store.read(path)
    row = {"run": "r", "step": "3", "part": "l0h1", "dataset": "d"}
    return devinterp_store.estimate(devinterp_store._task(row, stored), stored)


def test_burn_in_is_left_out_and_nothing_else(samples: tuple[Path, dict[str, Any]]) -> None:
    folder, theirs = samples
    for mask, said in theirs.items():
        found = of(folder / f"{mask}.zarr")
        trace_CS = said.loss_trace.to_numpy().astype(float)
        assert trace_CS.shape == (3, 18)
        assert found.loss_CS == pytest.approx(trace_CS[:, :17] - float(said.init_loss), abs=1e-6)
        known_C = 30 * (trace_CS[:, 4:17:2].mean(1) - float(said.init_loss))
        assert found.chains_C == pytest.approx(known_C, abs=1e-4)
        assert found.value == pytest.approx(known_C.mean(), abs=1e-4)
        all_steps = 30 * (trace_CS.mean() - float(said.init_loss))
        assert all_steps == pytest.approx(float(said.llc_mean), abs=1e-4)  # what devinterp itself reports
        assert abs(found.value - all_steps) > 1e-3


def test_the_error_holds_what_all_chains_share(samples: tuple[Path, dict[str, Any]]) -> None:
    import zarr

    folder, _ = samples
    found, group = of(folder / "l0h1.zarr"), zarr.open_group(folder / "l0h1.zarr", mode="r")
    loss_CSB = np.asarray(group["sampling_loss_micro"]).astype(float).mean(-1)[:, :17]
    used = {row.tobytes() for row in np.asarray(group["sampling_input_ids_micro"])[:, 4:17:2].reshape(-1, 16)}
    chains = found.chains_C.std(ddof=1) / math.sqrt(3)
    shared = 30 * loss_CSB.std(axis=2, ddof=1).mean() * math.sqrt(1 / 20 + 1 / len(used))
    assert found.error == pytest.approx(math.hypot(chains, shared))
    assert found.error > 1.5 * chains
    sampler = found.task.sampler
    assert sampler is not None
    assert (sampler.reference, sampler.reference_batches, sampler.batches, sampler.backend) == (
        "batches", 5, "shared", "devinterp",
    )  # fmt: skip


def test_the_command_makes_a_sweep_of_them(
    samples: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = samples
    listed = table(
        tmp_path,
        [(folder / f"{mask}.zarr", "old", step, mask, "pile") for mask in ("l0h1", "l1h3") for step in (0, 100)],
    )
    for _ in range(2):
        monkeypatch.setattr("sys.argv", ["rllc", "gather", f"root={tmp_path}", "name=old", f"devinterp={listed}"])
        assert main() == 0
    sweep = tmp_path / "sweeps" / "old"
    (curves,) = trajectories.read(sweep)
    assert curves.value_PDT.shape == (2, 1, 2)
    assert list(curves.parts) == ["L0H1", "L1H3"]
    assert curves.value_PDT[0, 0, 0] == pytest.approx(of(folder / "l0h1.zarr").value)
    assert {cell.task.sampler.reference for cell in plan.read(sweep) if cell.task.sampler} == {"batches"}
    assert {store.get(sweep, key).code for key in store.keys(sweep)} == {"devinterp 2.x"}


def changed(folder: Path, tmp_path: Path, change: str) -> Path:
    """A copy of a store with a part of its metadata replaced."""
    import shutil

    path = tmp_path / "copy.zarr"
    shutil.copytree(folder / "l0h1.zarr", path)
    before, after = change.split(" -> ")
    meta = path / "zarr.json"
    assert before in meta.read_text()
    meta.write_text(meta.read_text().replace(before, after))
    return path


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ('"completed": 1 -> "completed": 0', "was not sampled to its end"),
        ('"sgmcmc_sgld" -> "sgmcmc_sgnht"', "was sampled by sgmcmc_sgnht; legal: sgmcmc_sgld, rmsprop_sgld"),
        ('"n_beta" -> "beta"', "is no store of devinterp 2.x"),
    ],
)
def test_stores_that_cannot_be_read(
    samples: tuple[Path, dict[str, Any]], tmp_path: Path, change: str, sentence: str
) -> None:
    with pytest.raises(Mistake, match=sentence):
        devinterp_store.read(changed(samples[0], tmp_path, change))


def test_a_chain_that_broke_off_is_no_number(samples: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    import shutil

    import zarr

    path = tmp_path / "copy.zarr"
    shutil.copytree(samples[0] / "l0h1.zarr", path)
    group = zarr.open_group(path, mode="a")
    losses = np.asarray(group["sampling_loss_micro"])
    losses[1, 9:] = np.nan
    group["sampling_loss_micro"][...] = losses
    found = of(path)
    assert math.isnan(found.value)
    assert (found.health, found.reason) == ("diverged", "a stored loss is not finite")


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (("x.zarr", "r", 0, "", "d"), "line 2: no part; needed are store, run, step, part, dataset"),
        (("x.zarr", "r", "a", "l0h0", "d"), "line 2: step 'a' is not a whole number"),
        (("x.zarr", "r", 0, "l0h0", "d"), "x.zarr is no store of devinterp 2.x"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path: Path, row: tuple[object, ...], sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        devinterp_store.take(tmp_path / "sweep", table(tmp_path, [row]))
    assert not (tmp_path / "sweep").exists()

from dataclasses import replace
from typing import Any

import pytest
from tiny import Job

from rllc import plan, store
from rllc.zoo import folder

DECODER: dict[str, Any] = {
    "model": "decoder_2l8h", "model.d_rotary": 4, "model.d_mlp": 24, "model.gated": "true", "model.norm": "rms",
    "grid.parts": "[heads,mlps,layers,embed]", "grid.metrics": "[llc,prev_token]", "sampler.burn_in": 1,
}  # fmt: skip


@pytest.mark.slow
def test_a_decoder_is_trained_and_every_kind_of_part_measured(fresh: Job) -> None:
    job = replace(fresh, options=DECODER)
    done = job.do("sweep", "stages=[train,plan,launch,gather]")
    assert done.returncode == 0, done.stderr
    model, weights = folder.load(folder.checkpoints(job.run_folder)[20])
    assert (model.d_mlp, model.gated, model.norm, model.positions) == (24, True, "rms", "rotary")
    assert weights["L1.mlp.gate"].shape == (8, 24)
    cells = plan.read(job.sweep)
    parts = {f"L{layer}H{head}" for layer in range(2) for head in range(3)}
    assert {cell.task.part for cell in cells if cell.task.metric == "prev_token"} == parts
    every = parts | {"L0.mlp", "L1.mlp", "L0*", "L1*", "embed"}
    assert {cell.task.part for cell in cells if cell.task.metric == "llc"} == every
    assert store.keys(job.sweep) == {cell.task.key for cell in cells}
    trained = [cell.task for cell in cells if cell.task.step == 20 and cell.task.part == "embed"]
    assert all(store.get(job.sweep, task.key).value != 0 for task in trained)

import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import pytest

from rllc import composition, cost, launch, plan, probe, store, sweep
from rllc.plan import Cell

WORDS = ("grid.steps=[0,100]", "data=[stdlib_mix]", "grid.metrics=[llc]")


def cells(*words: str) -> list[Cell]:
    return sweep.outline(composition.compose([*WORDS, *words]), {"stdlib-s0": [0, 100]})


def seconds(cell: Cell) -> float:
    """A machine on which chains of layer 0 take longer."""
    return 0.3 + 2e-9 * cell.cost if cell.task.part.startswith("L0") else 0.2 + 1e-9 * cell.cost


def test_a_probe_takes_the_opening_of_pools_and_the_slope_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    chains = cells()
    opening = 4.0

    def run(commands: list[list[str]], *_: object, **__: object) -> int:
        folder = Path(commands[0][3])
        planned = plan.read(folder)
        (folder / "index").mkdir()
        for n, cell in enumerate(planned):
            line = dict.fromkeys(store.LINE) | {"key": cell.task.key}
            line["seconds"] = seconds(cell) + opening * (n % 2 == 0)
            store.path(folder, cell.task.key).parent.mkdir(parents=True, exist_ok=True)
            store.path(folder, cell.task.key).touch()
            with (folder / "index" / "here-1.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
        return 0

    monkeypatch.setattr(launch, "run", run)
    rates = probe.probe(chains, model=composition.compose(WORDS).model, pool=1024, threads=1)
    pools = 2 * 2  # of two checkpoints, once for the heads of each layer
    found = cost.estimate(chains, rates).seconds
    assert found == pytest.approx(sum(map(seconds, chains)) + opening * pools)


@pytest.mark.parametrize("words", [["sampler.batch=4096"], ["model=paper", "sampler=paper"]])
def test_expensive_steps_are_probed_with_less(words: list[str], tmp_path: Path) -> None:
    from rllc.models import decoder
    from rllc.zoo import folder

    model = composition.compose(words).model
    cell = cells(*words)[0]
    sampler = cell.task.sampler
    assert sampler
    folder.save(tmp_path / "probe.safetensors", model, decoder.init(model, 0))
    np.save(tmp_path / "rows.npy", np.zeros((4, model.n_ctx), np.int64))
    trial = probe._trial(cell, 0, tmp_path)
    cut = trial.task.sampler
    assert cut
    one_row = cell.cost / (sampler.steps * sampler.chains * sampler.batch)
    assert trial.cost / cut.steps <= max(probe.STEP_FLOP * 1.01, one_row)
    assert trial.cost == pytest.approx(one_row * cut.steps * cut.chains * cut.batch)
    whole = {name: getattr(sampler, name) for name in ("chains", "batch", "draws", "burn_in")}
    assert dataclasses.replace(cut, **whole) == sampler  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_probe_of_the_papers_model_ends_in_time() -> None:
    planned = cells("model=paper", "sampler=paper")
    began = time.monotonic()
    rates = probe.probe(planned, model=composition.compose(["model=paper"]).model, pool=1024, threads=1)
    assert time.monotonic() - began < probe.SECONDS + launch.STOP_SECONDS + 5
    per_second = 1 / np.mean([rate.per_flop for rate in rates.values()])
    assert 1e8 < per_second < 1e13  # a core's floating-point operations a second, between hopeless and impossible

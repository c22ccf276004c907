from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from rllc import composition, derive, gather, plan, store
from rllc.mistake import Mistake
from rllc.plan import Cell
from rllc.task import Estimate, Sampler, Task

SAMPLER = Sampler(lr=1e-3, nbeta=30.0, gamma=200.0, chains=2, draws=4, burn_in=0, batch=8)


def measured(part: str) -> Estimate:
    return Estimate(
        task=Task("demo-s0", "ww", 100, part, "code", "rr", "llc", 0, SAMPLER), value=0.5, error=0.125,
        chains_C=np.array([0.25, 0.75]), loss_CS=np.zeros((2, 4), np.float32), health="ok", reason="", stats={},
        seconds=2.0, code="0.1.0+abc",
    )  # fmt: skip


def test_what_comes_while_others_are_read_is_gathered_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is still at it: the table without its last result is not taken for whole later."""
    config = composition.compose([f"root={tmp_path}", "name=live"])
    sweep, early, late = derive.folder(config), measured("L0H0"), measured("L0H1")
    store.put(sweep, early, "w")
    plan.write(
        sweep, [Cell(each.task, str(tmp_path / "run" / "checkpoints" / "c"), "r", 1.0) for each in (early, late)]
    )
    read = gather.row

    def row(estimate: Estimate) -> dict[str, object]:
        store.put(sweep, late, "w")
        return read(estimate)

    monkeypatch.setattr(gather, "row", row)
    assert derive.gather_results(config) == 1
    assert parquet.read_table(sweep / "estimates.parquet")["part"].to_pylist() == ["L0H0"]
    assert derive.gather_results(config) == 0
    assert parquet.read_table(sweep / "estimates.parquet")["part"].to_pylist() == ["L0H0", "L0H1"]


@pytest.mark.parametrize("name", gather.FILES)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_damaged_table_is_gathered_again(
    name: str, share: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cut off at a share of its length; at 1 a byte in the middle is another."""
    config = composition.compose([f"root={tmp_path}", "name=whole"])
    sweep, only = derive.folder(config), measured("L0H0")
    store.put(sweep, only, "w")
    plan.write(sweep, [Cell(only.task, str(tmp_path / "run" / "checkpoints" / "c"), "r", 1.0)])
    assert derive.gather_results(config) == derive.gather_results(config) == 0
    assert "gather: nothing to do" in capsys.readouterr().out
    file = sweep / name
    whole = file.read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :]
    file.write_bytes(flipped if share == 1 else whole[: int(share * len(whole))])
    if name == "estimates.parquet" and share < 1:
        for verb in (derive.cluster, derive.draw, derive.track_again):
            with pytest.raises(Mistake, match=rf"^name: {file} is damaged; `rllc gather` makes it again.$"):
                verb(config)
    assert derive.gather_results(config) == 0
    assert file.read_bytes() == whole
    assert "nothing to do" not in capsys.readouterr().out

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import drill
import pytest
from tiny import until

from rllc import plan, store
from rllc.launch.attempts import Attempts

SHARDS = 2


def test_a_signal_is_passed_on_once_and_followed_by_another_after_the_grace() -> None:
    code = """
import os, signal, time
from rllc.launch.element import _Told
told = _Told(0.3)
print(told())
os.kill(os.getpid(), signal.SIGUSR1)
print(told().name, told())
time.sleep(0.4)
print(told().name, told())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "SIGUSR1", "None", "SIGTERM", "None"]


@pytest.mark.slow
def test_near_the_limit_the_tasks_in_hand_are_done_and_the_rest_is_more_to_do(tmp_path: Path) -> None:
    """One worker ends its task within the grace, the other's is held and has to be stopped."""
    job = drill.fresh(tmp_path)
    assert job.do("sweep", "stages=[plan]").returncode == 0
    cells = plan.read(job.sweep)
    folder = job.sweep / "slurm" / "001"
    shards = [folder / "shards" / f"0000-{n}.jsonl" for n in range(SHARDS)]
    for n, shard in enumerate(shards):
        plan.write_lines(shard, cells[n::SHARDS])
    names = [f"{cell.task.step}-{cell.task.dataset}-{cell.task.part}" for cell in cells[:SHARDS]]
    orders = [drill.order(job, name, "hold") for name in names]
    with subprocess.Popen(
        [sys.executable, "-m", "rllc.launch.element", job.sweep, *shards, "--threads=2", "--grace=3"], cwd=tmp_path,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "4,7"},
    ) as process:  # fmt: skip
        until(lambda: all(drill.starts(job, name) for name in names))
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.5)
        orders[0].unlink()
        assert process.wait(60) == 75
    assert store.keys(job.sweep) == {cells[0].task.key}
    assert [drill.starts(job, name)[0].devices for name in names] == ["4", "7"]
    held = Attempts(folder / "attempts" / "0000-1.jsonl", 1)
    assert held.begun() == 1
    assert held.spent() == set()
    orders[1].unlink()
    done = subprocess.run([sys.executable, "-m", "rllc.launch.element", job.sweep, *shards], cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert store.keys(job.sweep) == {cell.task.key for cell in cells}
    assert sorted(file.name for file in (job.sweep / "index").iterdir()) == ["001-0000-0.jsonl", "001-0000-1.jsonl"]

import dataclasses

import pytest

from rllc import composition, launch
from rllc.config import Local, Slurm
from rllc.launch import size


@pytest.fixture(scope="module")
def slurm() -> Slurm:
    found = composition.compose(["launch=slurm"]).launch
    assert isinstance(found, Slurm)
    return found


@pytest.mark.parametrize(
    ("given", "workers"),
    [
        ({}, 1), ({"workers_per_gpu": 3}, 3), ({"gpus": 2}, 2), ({"gpus": 2, "workers_per_gpu": 3}, 6),
        ({"gres": "gpu:4"}, 4), ({"gres": "gpu"}, 1), ({"gres": "gpu:a100:2"}, 2), ({"gres": "gpu:a100"}, 1),
        ({"gres": "gpu:a100:2(S:0-1)"}, 2), ({"gres": "gpu:a100:1,gpu:h100:2,license:7"}, 3), ({"gres": "tmp:100"}, 1),
    ],
)  # fmt: skip
def test_an_element_has_a_worker_for_each_gpu(given: dict[str, object], workers: int, slurm: Slurm) -> None:
    assert launch.per_element(dataclasses.replace(slurm, **given)) == workers  # type: ignore[arg-type]


def test_the_workers_of_an_element_share_its_cpus(slurm: Slurm) -> None:
    assert launch.threads(slurm) == 1
    assert launch.threads(dataclasses.replace(slurm, cpus=8, gpus=2, workers_per_gpu=2)) == 2
    assert launch.threads(dataclasses.replace(slurm, gpus=4)) == 1


def test_workers_at_once(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    assert launch.workers(dataclasses.replace(slurm, running=5, gpus=2)) == 10
    assert launch.workers(dataclasses.replace(slurm, running=None, shards=7)) == 7
    assert launch.workers(dataclasses.replace(slurm, running=16, shards=2, workers_per_gpu=3)) == 6
    monkeypatch.setattr(size, "cores", lambda: 8)
    assert launch.workers(Local("local", None, 2)) == 4
    assert launch.workers(Local("local", None, 2, devices=["0", "1", "2"])) == 3
    assert launch.workers(Local("local", 5, 2, devices=["0", "1", "2"])) == 5
    assert launch.here(slurm) == Local("local", None, 1)

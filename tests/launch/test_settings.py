import dataclasses
from pathlib import Path

import pytest
import yaml

from rllc import composition, resolve
from rllc.config import Local, Slurm
from rllc.mistake import Mistake

CONF = Path(composition.__file__).parents[1] / "conf" / "launch"


@pytest.mark.parametrize("site", sorted(file.stem for file in CONF.glob("*.yaml")))
def test_every_launch_is_legal_and_survives_its_file(site: str) -> None:
    config = composition.compose([f"launch={site}"])
    assert isinstance(config.launch, Local if site == "local" else Slurm)
    assert resolve.config(yaml.safe_load(resolve.text(config))) == config


def test_a_time_limit_survives_its_file() -> None:
    config = composition.compose(["launch=slurm", "launch.time='4:00:00'"])
    found = resolve.config(yaml.safe_load(resolve.text(config))).launch
    assert isinstance(found, Slurm)
    assert found.time == "4:00:00"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["launch=slurm", "launch.partitoin=gpu"], "launch.partitoin: there is no such key; legal: kind, "),
        (["launch.partition=gpu"], "launch.partition: the groups that are chosen have no such key."),
        (["launch=slurm", "launch.workers=3"], "launch.workers: the groups that are chosen have no such key."),
        (["launch=slrum"], "launch: 'slrum' is not one of: local, "),
        (["launch.kind=pbs"], "launch.kind: 'pbs' is not one of: local, slurm."),
        (["launch=slurm", "launch.shards=0"], "launch.shards: 0 is below the least legal value, 1."),
        (["launch=slurm", "launch.cpus=x"], "launch.cpus: 'x' is not a whole number."),
        (["launch=slurm", "launch.max_requeues=-1"], "launch.max_requeues: -1 is below the least legal value, 0."),
        (["launch=slurm", "launch.time=tomorrow"], "launch.time: 'tomorrow' is not a time limit; write minutes,"),
        (["launch=slurm", "launch.gpus=1", "launch.gres='gpu:1'"], "launch.gres: 'gpu:1' and launch.gpus 1 ask"),
        (["launch=slurm", "launch.extra_sbatch=[nice]"], "launch.extra_sbatch: 'nice' is not an option of sbatch,"),
        (["launch=slurm", "launch.extra_sbatch=['--array=3']"], "launch.extra_sbatch: '--array=3' is not legal;"),
        (["launch=slurm", "+launch.env.A-B=c"], "launch.env: 'A-B' is not a name of a variable;"),
        (["launch.devices=[]"], "launch.devices: [] names no GPU;"),
        (["launch.attempts=0"], "launch.attempts: 0 is below the least legal value, 1."),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_its_key(words: list[str], sentence: str) -> None:
    with pytest.raises(Mistake) as caught:
        composition.compose(words)
    assert str(caught.value).startswith(sentence)


def test_lines_are_not_broken() -> None:
    config = composition.compose(["launch=slurm"])
    assert isinstance(config.launch, Slurm)
    broken = dataclasses.replace(config.launch, comment="one\n#SBATCH --uid=0")
    values = yaml.safe_load(resolve.text(dataclasses.replace(config, launch=broken)))
    with pytest.raises(Mistake, match=r"^launch\.comment: .* must stand on one line\.$"):
        resolve.config(values)

import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "wandb"))
import mock_server
from small import KEY, PNG, whole

from rllc.track import collector


class Recorder:
    alive = True

    def __init__(self):
        self.items = []

    def log(self, item):
        self.items.append(item)

    def close(self, _):
        return True

    def points(self, dataset):
        return [item for item in self.items if getattr(item, "dataset", None) == dataset]

    def steps(self, dataset):
        return [item.step for item in self.points(dataset)]


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NETRC", raising=False)


@pytest.fixture
def recorder(monkeypatch):
    sink = Recorder()
    monkeypatch.setattr(collector, "sink", lambda *_, **__: sink)
    return sink


@pytest.fixture
def sweep(tmp_path):
    """A finished sweep with every result, without its index lines."""
    folder = tmp_path / "sweeps" / "my sweep"
    (folder / "report").mkdir(parents=True)
    (folder / "config.yaml").write_text(
        f"name: my sweep\nroot: {tmp_path}\nsampler:\n  lr: 0.001\napi_key: {KEY}\nnote: use {KEY}!\n"
        f"data:\n  pile:\n    path: {tmp_path}/data/pile.jsonl\n  code:\n    path: /mnt/lab/code.jsonl\n"
        "launch:\n  account: secret-lab\n"
    )
    (folder / "report" / "curves.png").write_bytes(PNG)
    whole(folder)
    return folder


@pytest.fixture
def server(monkeypatch):
    with mock_server.serve() as state:
        monkeypatch.setenv("WANDB_BASE_URL", state.url)
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        yield state

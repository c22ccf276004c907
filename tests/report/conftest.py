import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from rllc import clustering, config
from rllc.report import style

Cell = tuple[str, str, int]  # part, dataset, step

SAMPLER = {"lr": 1e-3, "nbeta": 30.0, "gamma": 200.0, "chains": 4, "draws": 40, "burn_in": 10, "reference": "paired"}
SCORES = ("prev_token", "current_token", "prefix")
STATS = ("stein", "localised", "bias_burn_in", "rhat", "ess", "drift", "drift_p")
STEPS = (0, 100, 200, 300, 400, 600, 800, 1000, 1100, 1200, 1400, 1600)


@dataclass(frozen=True)
class Spec:
    """A sweep to make: its size, and what went wrong in it."""

    runs: Sequence[str] = ("stdlib-s0",)
    layers: int = 2
    heads: int = 4
    steps: Sequence[int] = STEPS
    datasets: Sequence[str] = ("stdlib_code", "stdlib_mix")
    others: Sequence[str] = ()
    chains: int = 4
    seeds: int = 1
    scores: bool = True
    health: dict[Cell, tuple[str, str]] = field(default_factory=dict)
    absent: frozenset[Cell] = frozenset()


def kind(layer: int, head: int, heads: int) -> str:
    """Make the first heads of layer 0 previous-token, the last half of the others induction."""
    if layer == 0:
        return "previous" if head < max(heads // 4, 1) else "plain"
    return "induction" if head >= heads // 2 else "plain"


def truth(kind: str, dataset: int, step: int) -> float:
    """Give the curve that estimates scatter about, in nats."""
    rise = 1 - math.exp(-step / 250)
    late = 1 / (1 + math.exp(-(step - 1000) / 60))
    level = {"previous": 1.1 * rise + 0.15 * late, "plain": 0.32 * rise, "induction": 0.22 * rise + 0.4 * late}[kind]
    return level * (1.0 + 0.15 * dataset)


def llc_rows(spec: Spec, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Make the estimates."""
    parts = [(f"L{la}H{h}", la, h) for la in range(spec.layers) for h in range(spec.heads)]
    parts += [(part, -1, -1) for part in spec.others]
    rows = []
    for n, run in enumerate(spec.runs):
        for part, layer, head in parts:
            level = rng.uniform(0.85, 1.15)
            for (d, dataset), step, seed in (
                (pair, step, seed)
                for pair in enumerate(spec.datasets)
                for step in spec.steps
                for seed in range(spec.seeds)
            ):
                if (part, dataset, step) in spec.absent:
                    continue
                shape = kind(layer, head, spec.heads) if layer >= 0 else "previous"
                mean = level * truth(shape, d, step)
                chains = mean + rng.normal(0, 0.02 + 0.06 * mean, spec.chains)
                health, reason = spec.health.get((part, dataset, step), ("ok", ""))
                value = math.nan if health == "diverged" else float(chains.mean())
                several = spec.chains > 1 and health != "diverged"
                rows.append({
                    "key": f"{n}/{part}/{dataset}/{step}/{seed}", "run": run, "step": step, "part": part,
                    "layer": layer, "head": head, "dataset": dataset, "metric": "llc", "seed": seed, "value": value,
                    "error": float(chains.std(ddof=1)) / math.sqrt(spec.chains) if several else math.nan,
                    "health": health, "reason": reason, "chains": chains.tolist(), "stein": rng.normal(1.03, 0.02),
                    "localised": rng.uniform(0.6, 0.9), "bias_burn_in": -0.012, "rhat": rng.uniform(1, 1.2),
                    "ess": rng.uniform(30, 80), "drift": rng.normal(0, 0.02), "drift_p": rng.uniform(),
                    "sampler": json.dumps(SAMPLER), "weights_hash": "w", "rows_hash": "r", "seconds": 1.0,
                    "code": "0.1.0+abc1234",
                })  # fmt: skip
    return rows


def score_rows(spec: Spec, rng: np.random.Generator, like: dict[str, Any]) -> list[dict[str, Any]]:
    """Make the attention scores that belong to the kinds of the heads."""
    end = {"previous": (0.8, 0.08, 0.01), "plain": (0.12, 0.15, 0.02), "induction": (0.06, 0.05, 0.5)}
    rows = []
    for run in spec.runs:
        for layer, head in np.ndindex(spec.layers, spec.heads):
            goal = dict(zip(SCORES, end[kind(layer, head, spec.heads)], strict=True))
            for metric in SCORES:
                for dataset in ("repeats",) if metric == "prefix" else spec.datasets:
                    for step in spec.steps:
                        late = (
                            1 / (1 + math.exp(-(step - 1000) / 80)) if metric == "prefix" else 1 - math.exp(-step / 300)
                        )
                        value = 0.04 + (goal[metric] - 0.04) * late + rng.normal(0, 0.01)
                        rows.append({
                            **like, "key": f"{run}/{layer}/{head}/{metric}/{dataset}/{step}", "run": run,
                            "step": step, "part": f"L{layer}H{head}", "layer": layer, "head": head, "dataset": dataset,
                            "metric": metric,
                            "seed": 0, "value": value, "error": 0.002, "health": "ok", "reason": "", "chains": [],
                            **dict.fromkeys(STATS, math.nan),
                            "sampler": "null",
                        })  # fmt: skip
    return rows


def trace_rows(estimates: Sequence[dict[str, Any]], rng: np.random.Generator) -> list[dict[str, Any]]:
    """Make the loss traces: a rise over the burn-in to the chain's mean, and noise."""
    step = np.arange(50)
    return [
        {
            "key": row["key"],
            "chain": chain,
            "step": step.tolist(),
            "excess": (mean / 30 * (1 - np.exp(-step / 4)) + rng.normal(0, 0.004, len(step))).tolist(),
        }
        for row in estimates
        for chain, mean in enumerate(row["chains"])
    ]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    parquet.write_table(pa.Table.from_pylist(rows).replace_schema_metadata({"rllc.schema": "1"}), path)


def make(folder: Path, spec: Spec) -> Path:
    """Write the gathered files of a sweep."""
    rng = np.random.default_rng(7)
    folder.mkdir(parents=True, exist_ok=True)
    rows = llc_rows(spec, rng)
    write(folder / "estimates.parquet", rows + (score_rows(spec, rng, rows[0]) if spec.scores else []))
    write(folder / "traces.parquet", trace_rows(rows, rng))
    losses = [
        {"run": run, "step": step, "loss": 1.6 + 4.6 * math.exp(-step / 180) + 0.3 / (1 + n) + rng.normal(0, 0.03)}
        for n, run in enumerate(spec.runs)
        for step in range(0, max(spec.steps) + 1, 10)
    ]
    write(folder / "training.parquet", losses)
    (folder / "config.yaml").write_text("name: demo\nsampler:\n  nbeta: 30.0 # <nβ>\n", encoding="utf-8")
    environment = {"code": "0.1.0+abc1234", "python": "3.12.1", "packages": {"numpy": "2.1.0", "torch": "2.6.0"}}
    (folder / "env.json").write_text(json.dumps(environment))
    return folder


def options(**changed: Any) -> config.Cluster:
    """Give quick options of the clustering."""
    chosen: dict[str, Any] = {
        "methods": ["kmeans", "kshape", "ward"], "scalings": ["none", "standardize"], "k": None, "k_range": [2, 3],
        "primary": config.Primary("kmeans", "standardize"), "per_layer": True, "logx": True, "fill": "none",
        "n_init": 2, "seed": 0, "null_draws": 4, "draws": 8,
    }  # fmt: skip
    return config.Cluster(**{**chosen, **changed})


@pytest.fixture
def sweep(tmp_path: Path) -> Callable[..., Path]:
    """Make a sweep of a given spec, without clusters."""
    return lambda name="demo", **changed: make(tmp_path / name, Spec(**changed))


@pytest.fixture
def cluster() -> Callable[..., None]:
    """Cluster a sweep, with options changed by name."""
    return lambda folder, table=None, **changed: clustering.run(folder, options(**changed), table=table)


@pytest.fixture(scope="session")
def clustered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a sweep of one run with clusters; not to be changed."""
    folder = make(tmp_path_factory.mktemp("sweeps") / "demo", Spec())
    clustering.run(folder, options())
    return folder


@pytest.fixture
def styled():
    """Draw as the report does."""
    with style.settings():
        yield

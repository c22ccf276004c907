"""For notebooks: one estimate without a sweep, and a finished sweep as tables and arrays."""

import csv
import hashlib
import io
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rllc import atomic, csv_tables, legal, plan, planning, trajectories
from rllc.backends import installed
from rllc.mistake import Mistake, unknown
from rllc.task import Estimate, Sampler, Task

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import ArrayLike, NDArray
    from torch import nn

    from rllc.models.module import Data, Loss


def estimate(
    checkpoint: str | Path, part: str, tokens: "ArrayLike", *, sampler: Sampler | str = "demo", seed: int = 0
) -> Estimate:
    """Estimate λ̂ of one part of a checkpoint on rows of tokens, in this process.

    Args:
        checkpoint: a safetensors file of a run (see `rllc.zoo.folder`).
        part: a head or a glob over the flat names: "L1H6", "L0*", "*".
        tokens: rows of token ids, (rows, length ≤ the model's n_ctx); a thousand are plenty, and each costs time.
        sampler: options of the chains, or the name of a file of conf/sampler.
        seed: of minibatches and noise.

    Returns:
        value (nats) with its standard error, per-chain values, loss trace and health.

    Raises:
        Mistake: the file, the part, the tokens or the sampler cannot be used.

    Example:
        >>> import rllc
        >>> rllc.estimate("runs/stdlib-s0/checkpoints/step_0001600.safetensors", "L1H6", rows)  # doctest: +SKIP
    """
    import numpy as np
    import torch

    from rllc.metrics import llc
    from rllc.models.pool import Pool
    from rllc.zoo import folder

    path, rows = Path(checkpoint), np.asarray(tokens)
    options = _preset(sampler) if isinstance(sampler, str) else sampler
    legal.check_sampler(options)
    installed.check(options)
    model, weights = folder.load(path)
    legal.check_backend(options, model)
    if caution := planning.caution(model, part):
        warnings.warn(caution, stacklevel=2)
    if rows.ndim != 2 or rows.dtype.kind not in "iu" or not 2 <= rows.shape[1] <= model.n_ctx:
        raise Mistake(f"tokens: {rows.dtype} of shape {rows.shape} are not whole numbers, (rows, 2 to {model.n_ctx}).")
    if not len(rows) or rows.min() < 0 or rows.max() >= model.d_vocab:
        raise Mistake(f"tokens: {len(rows)} rows must hold ids from 0 to {model.d_vocab - 1}, and be at least one.")
    content = hashlib.sha256(str(rows.shape).encode() + np.ascontiguousarray(rows, np.int64).tobytes()).hexdigest()[:16]
    task = Task(path.stem, folder.describe(path)[1], -1, part, "tokens", content, "llc", seed, options)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in sweeps: the same numbers, and small products are slower with more
    try:
        return llc.measure(task, Pool.of(weights, model, rows, options))
    finally:
        torch.set_num_threads(threads)


def estimate_module(
    module: "nn.Module", loss: "Loss", data: "Data", *, part: str = "*", sampler: Sampler | str = "demo", seed: int = 0
) -> Estimate:
    """Estimate λ̂ of a part of any torch module on the user's own loss and data, in this process.

    Args:
        module: evaluated in eval mode where its parameters lie, and left as it was.
        loss: loss(module, batch) gives one number a sample, (B,), or their mean; it must use the module it is given.
        data: a tensor, or several, with the samples as first axis; a batch is the same with B of them.
        part: a glob over the parameters' own names, as "conv1.*", "*.bias+fc.*" or "!embed.*" (see `models.parts`).
        sampler: options of the chains, or the name of a file of conf/sampler.
        seed: of minibatches and noise.

    Returns:
        value (in the unit of the loss) with its standard error, per-chain values, loss trace and health.

    Raises:
        Mistake: the part, a weight, the loss, the data or the sampler cannot be used.

    Example:
        >>> import rllc
        >>> loss = lambda module, batch: cross_entropy(module(batch[0]), batch[1], reduction="none")
        >>> rllc.estimate_module(net, loss, (images, labels), part="conv1.*")  # doctest: +SKIP
    """
    from rllc.metrics import llc
    from rllc.models import module as modules

    options = _preset(sampler) if isinstance(sampler, str) else sampler
    legal.check_sampler(options)
    legal.check_general(options, "modules")
    samples = modules.samples(data, options.batch)
    task = Task(
        run=type(module).__name__, weights=modules.content(module.state_dict().items()), step=-1, part=part,
        dataset="data", rows=modules.content(enumerate(samples)), metric="llc", seed=seed, sampler=options,
        loss=modules.name(loss),
    )  # fmt: skip
    return llc.measure_module(task, module, loss, data)


@dataclass(frozen=True)
class Sweep:
    """A sweep's gathered files; nothing is read before it is asked for, and torch is never needed.

    Example:
        >>> import rllc
        >>> sweep = rllc.load("sweeps/demo")  # doctest: +SKIP
        >>> curves = sweep.trajectories()[0]  # doctest: +SKIP
        >>> curves.value_PDT.shape  # parts, datasets, steps  # doctest: +SKIP
        (16, 2, 10)
    """

    path: Path

    def estimates(self) -> "pa.Table":
        """One row an estimate, as in estimates.parquet; `.to_pandas()` where pandas is installed."""
        from pyarrow import parquet

        return parquet.read_table(self.path / "estimates.parquet")

    def rows(self, dataset: str) -> "NDArray[np.unsignedinteger[Any]]":
        """The estimation rows of a dataset, (rows, length), as the chains saw them."""
        import numpy as np

        found = {cell.task.dataset: cell.rows for cell in plan.read(self.path)}
        if dataset not in found:
            raise unknown("dataset", dataset, found)
        rows: NDArray[np.unsignedinteger[Any]] = np.load(
            self.path.resolve().parent.parent / found[dataset], allow_pickle=False
        )
        return rows

    def trajectories(self, metric: str = "llc") -> list[trajectories.Trajectories]:
        """The curves of each run; raises Mistake where a cell is missing or diverged."""
        return trajectories.read(self.path, metric=metric)

    def labels(self) -> list[dict[str, str]]:
        """The rows of clusters/labels.csv; empty before clustering."""
        return csv_tables.read(self.path / "clusters" / "labels.csv")

    def to_csv(self, path: str | Path, metric: str = "llc") -> None:
        """Write the curves as a tidy table, run,metric,part,dataset,step,value,error,low,high: one row an observation.

        `low` and `high` are the ends of the 95 % interval; they and an unknown error are empty.
        """
        from rllc.report import estimates

        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*trajectories.TIDY, "low", "high"])
        half = {run: curves.half_PDT for run, curves in estimates.curves(estimates.read(self.path), metric).items()}
        for curve in self.trajectories(metric):
            for row, width in zip(trajectories.tidy([curve]), half[curve.run].ravel().tolist(), strict=True):
                ends = (row[5] - width, row[5] + width) if math.isfinite(width) else ("", "")
                writer.writerow([*row[:6], row[6] if math.isfinite(row[6]) else "", *ends])
        atomic.write_text(Path(path), text.getvalue())


def load(sweep: str | Path) -> Sweep:
    """Open a sweep's folder.

    Raises:
        Mistake: nothing was gathered there.
    """
    path = Path(sweep)
    if not (path / "estimates.parquet").exists():
        raise Mistake(f"sweep: {path / 'estimates.parquet'} does not exist; run `rllc sweep` or `rllc gather`.")
    return Sweep(path)


def _preset(name: str) -> Sampler:
    from rllc import composition

    options: Any = composition.compose([f"sampler={name}"]).sampler
    assert isinstance(options, Sampler)
    return options

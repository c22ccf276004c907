"""Random tokens said twice: the rows on which prefix matching of attention heads is scored."""

from pathlib import Path

from rllc.data import probes
from rllc.data.rows import Rows, put


def build(d_vocab: int, n_ctx: int, *, rows: int, seed: int, folder: Path, bos: int | None = None) -> Rows:
    """Write rows (rows, n_ctx) of `probes.repeats` under the name "repeats"; BOS is by default the last id."""
    drawn = probes.repeats(d_vocab, n_ctx, count=rows, seed=seed, bos=d_vocab - 1 if bos is None else bos)
    return put("repeats", drawn, folder)

"""The text a head reacts to: tokens whose loss rises most when the head is moved, with what stands before them."""

from collections import defaultdict
from pathlib import Path

import numpy as np

from rllc import kept, plan
from rllc.plan import Cell

SHOWN = 6  # tokens of each dataset
BEFORE = 14  # tokens of context


def read(sweep: Path) -> dict[str, dict[str, list[str]]]:
    """Give the contexts of each run and part whose token losses were kept, at the last step where they were.

    Each is "dataset: what stands before ⟦token⟧ +excess": the loss of the token in brackets rose by so many nats;
    SHOWN of each dataset and seed, the largest first. Empty where nothing was kept, or the tokenizer or the rows are
    gone.
    """
    if not (sweep / "tokens").is_dir():
        return {}
    cells, last = [cell for cell in plan.read(sweep) if cell.keep], dict[tuple[str, str], int]()
    for task in (cell.task for cell in cells):
        last[task.run, task.part] = max(task.step, last.get((task.run, task.part), 0))
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for cell in sorted(cells, key=lambda cell: (cell.task.dataset, cell.task.seed)):
        if cell.task.step == last[cell.task.run, cell.task.part] and (texts := _texts(sweep, cell)):
            found[cell.task.run][cell.task.part] += texts
    return {run: dict(of_run) for run, of_run in found.items()}


def _texts(sweep: Path, cell: Cell) -> list[str]:
    """Read the tokens of one cell with the largest excess."""
    from pyarrow import parquet
    from tokenizers import Tokenizer

    root = sweep.resolve().parent.parent
    table, rows = kept.path(sweep, cell.task.key), root / cell.rows
    vocabulary = (root / cell.checkpoint).parent.parent / "tokenizer.json"
    if not (table.is_file() and rows.is_file() and vocabulary.is_file()):
        return []
    tokenizer = Tokenizer.from_file(str(vocabulary))
    tokens_NL = np.load(rows, mmap_mode="r", allow_pickle=False)
    kept_ = parquet.read_table(table, columns=["row", "position", "excess"])
    row, position, excess = (kept_.column(name).to_numpy() for name in ("row", "position", "excess"))
    said = []
    for place in np.argsort(-excess, kind="stable")[:SHOWN]:
        at = int(position[place])
        before = tokens_NL[row[place], max(at - BEFORE, 0) : at].tolist()
        token = tokenizer.decode([int(tokens_NL[row[place], at])], skip_special_tokens=False)
        text = f"{tokenizer.decode(before, skip_special_tokens=False)}⟦{token}⟧".replace("\n", "⏎")
        said.append(f"{cell.task.dataset}: {text} {excess[place]:+.2f}")
    return said

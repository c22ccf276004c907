"""Estimates where the answer is known: potentials with an exact learning coefficient, and the table of them."""

import dataclasses
import json
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rllc import atomic, launch, progress, version

if TYPE_CHECKING:
    from rllc.config import Config
    from rllc.validation.rows import Row


def run(config: "Config") -> int:
    """Measure every case that has no row yet, then print and store the table; the exit code.

    Writes rows/*.json as they come, table.csv, order.csv, settings.json and figure.png and .svg into root/validation;
    1 if a chain diverged.
    """
    from rllc.report import style
    from rllc.validation import cases, figure, setting, table

    chosen = cases.every(quick=config.validate.quick)
    folder = Path(config.root, "validation").resolve()
    with atomic.owner(folder, "validate"):
        rows = _measure(folder / "rows", [case.name for case in chosen], launch.workers(launch.here(config.launch)))
        found = table.orders(rows)
        atomic.write_text(folder / "table.csv", table.text(rows))
        atomic.write_text(folder / "order.csv", table.text(found))
        settings = {case.name: dataclasses.asdict(case.sampler) for case in chosen}
        told = {"code": version.code(), "packages": version.packages(), "step": setting.STEP, "settings": settings}
        atomic.write_text(folder / "settings.json", json.dumps(told, indent=1, ensure_ascii=False))
        with style.settings():
            style.save(figure.draw(rows), folder / "figure")
    table.show(rows, found)
    print(f"table     {folder / 'table.csv'}\nfigure    {folder / 'figure.png'}")
    return int(any(row.health == "diverged" for row in rows))


def _measure(folder: Path, names: list[str], workers: int) -> "list[Row]":
    """Rows in the order of the names, measured by processes of one thread each, the largest first."""
    from rllc.validation import rows

    jobs = [(folder, name) for name in reversed(names)]
    done: dict[str, Row] = {}
    context = multiprocessing.get_context("spawn")
    with (
        progress.bar("validate") as show,
        context.Pool(min(workers, len(jobs)), _follow, (os.getpid(),)) as pool,
    ):
        show(0, len(jobs))
        for row in pool.imap_unordered(rows.kept_by_name, jobs):
            done[row.name] = row
            show(len(done), len(jobs))
        pool.close()
        pool.join()  # left to itself it would kill its workers, which then say that they leak
    return [done[name] for name in names]


def _follow(parent: int) -> None:
    """Leave Ctrl-C to the parent of this process, and end when the parent is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, daemon=True).start()

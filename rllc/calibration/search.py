"""The search: a round of short chains on a large grid, and a round of whole ones on what is left of it.

Its cells are tasks like any other, in a plan of their own, so that what is done is never done again.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rllc import atomic, cost, derive, launch, plan, planning, probe, runs, store, sweep
from rllc.calibration import choice, grid, output
from rllc.calibration.choice import Judgement
from rllc.calibration.finding import Finding
from rllc.calibration.grid import Setting
from rllc.config import Config
from rllc.mistake import Unfinished
from rllc.plan import Cell
from rllc.planning import Checkpoint, Dataset
from rllc.task import Sampler

LARGE = 8  # settings, above which the first round is short
SHORT = 0.25  # of the length of the chains


@dataclass(frozen=True)
class Search:
    """What is fixed before any chain runs: the places and the grid."""

    config: Config
    checkpoints: Sequence[Checkpoint]
    datasets: Sequence[Dataset]
    can: Sequence[Setting]
    cannot: Mapping[Setting, str]

    @property
    def folder(self) -> Path:
        """Where plan, results and recommendation lie."""
        return derive.folder(self.config) / "calibration"

    @property
    def large(self) -> bool:
        """Whether a round of short chains comes first."""
        return len(self.can) > LARGE

    def short(self) -> list[Cell]:
        """The plan of the first round on a large grid: short chains at the last checkpoint."""
        length = SHORT * self.config.calibrate.relaxations
        return grid.cells(self.config, self.checkpoints[-1:], self.datasets, self.can, length)

    def whole(self, tried: Sequence[Setting]) -> list[Cell]:
        """The plan of whole chains of some settings at every checkpoint."""
        return grid.cells(self.config, self.checkpoints, self.datasets, tried, self.config.calibrate.relaxations)


def run(config: Config) -> int:
    """Calibrate the sampler of a sweep; the exit code (0 something is recommended, 1 nothing could be).

    Raises:
        Mistake: the configuration cannot be carried out; found before any work.
        Unfinished: chains of the calibration are missing.
    """
    one = dataclasses.replace(config, train=dataclasses.replace(config.train, seeds=config.train.seeds[:1]))
    outline = _outline(one)
    print(_told(outline))
    if config.launch.dry_run:
        print("calibrate: nothing was started")
        return 0
    with atomic.owner(outline.folder, "name"):
        sweep.train(one)
        datasets, _ = runs.datasets(one, runs.model(one))
        steps = {outline.checkpoints[0].run: [checkpoint.step for checkpoint in outline.checkpoints]}
        search = dataclasses.replace(outline, checkpoints=runs.checkpoints(one, steps), datasets=datasets)
        judged = _search(search)
        chosen = choice.choose(choice.plateaus(judged), config.sampler)
        return output.write(search.folder, config, judged, chosen)


def _outline(config: Config) -> Search:
    """The search before its files exist."""
    ((run, saved),) = sweep.check(config).items()
    model = runs.model(config)
    grid.chosen(config, planning.parts_of(model, config.grid.parts))
    checkpoints = [Checkpoint(run, step, "", "", model) for step in grid.steps(config, saved)]
    datasets = [Dataset(name, "", "") for name in config.grid.datasets or config.data]
    return Search(config, checkpoints, datasets, *grid.settings(config.calibrate, config.sampler))


def _told(search: Search) -> str:
    """What the search will cost at most."""
    config, model = search.config, search.checkpoints[0].model
    first, later = search.short() if search.large else search.whole(search.can), list[Cell]()
    if search.large:
        pairs = {setting.pair for setting in search.can}
        softest = sorted(pairs)[: math.ceil(len(pairs) / 2)]
        later = search.whole([setting for setting in search.can if setting.pair in softest])
    pool = max(dataset.pool for dataset in config.data.values())
    cells = [*first, *later]
    here = launch.here(config.launch)
    rates = probe.rates(cells, root=Path(config.root), model=model, pool=pool, threads=here.threads)
    done, workers = cost.done(search.folder), launch.workers(here)
    told = f"calibrate: {len(search.can)} settings; {cost.estimate(first, rates, done).describe(workers)}"
    if later:
        told += f"\ncalibrate: then, of the better half, at most {cost.estimate(later, rates, done).describe(workers)}"
    return told


def _search(search: Search) -> dict[Setting, Judgement]:
    """Run the rounds and judge every setting."""
    tolerance, cells = search.config.calibrate.tolerance, search.short() if search.large else search.whole(search.can)
    findings = _measured(search, cells, cells)
    dropped: dict[Setting, Judgement] = {}
    if search.large:
        dropped = _dropped(findings, tolerance, search.config.sampler)
        left = search.whole([setting for setting in search.can if setting not in dropped])
        findings |= _measured(search, left, [*cells, *left]) if left else {}
    return choice.judge(findings, search.cannot, dropped, tolerance)


def _dropped(findings: Mapping[Setting, Finding], tolerance: float, base: Sampler) -> dict[Setting, Judgement]:
    """What drops out after short chains: faulty settings, and γ and nβ that are not in the better half."""
    dropped = {
        setting: Judgement(finding, None, fault)
        for setting, finding in findings.items()
        if (fault := finding.fault(tolerance))
    }
    signal: dict[tuple[float, float], float] = {}
    for setting, finding in findings.items():
        if setting not in dropped:
            signal[setting.pair] = max(signal.get(setting.pair, 0.0), choice.strength(finding))
    ranked = sorted(signal, key=lambda pair: (pair != (base.gamma, base.nbeta), -signal[pair]))
    for pair in ranked[math.ceil(len({setting.pair for setting in findings}) / 2) :]:
        why = f"signal {signal[pair]:.2g} with short chains, not in the better half"
        for setting, finding in findings.items():
            if setting.pair == pair and setting not in dropped:
                dropped[setting] = Judgement(finding, None, why, weak=True)
    return dropped


def _measured(search: Search, wanted: Sequence[Cell], whole: Sequence[Cell]) -> dict[Setting, Finding]:
    """Run what is missing of the cells, with `whole` as the plan, and read them by setting."""
    folder, tasks = search.folder, [cell.task for cell in wanted]
    if missing := {task.key for task in tasks} - store.keys(folder):
        plan.write(folder, whole)
        store.clear_errors(folder)
        launch.sweep(folder, whole, launch.here(search.config.launch), on_line=lambda _: None)
        if left := missing - store.keys(folder):
            told = next(iter(store.errors(folder).values()), "a worker was stopped")
            raise Unfinished(f"{len(left)} chains of the calibration are missing ({told}); run the same command again")
    else:
        print(f"calibrate: all {len(wanted)} tasks are done, nothing to do")
    found: dict[Setting, list[Cell]] = {}
    for cell in wanted:
        sampler = cell.task.sampler
        assert sampler is not None
        found.setdefault(Setting(sampler.gamma, sampler.nbeta, sampler.lr), []).append(cell)
    return {
        setting: Finding(setting, tuple(store.get(folder, cell.task.key) for cell in sorted(cells, key=plan.order)))
        for setting, cells in found.items()
    }

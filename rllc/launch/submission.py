"""What was submitted: a folder sweeps/<sweep>/slurm/<number> with the shards, the scripts, and the ids of the jobs."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rllc import atomic, plan
from rllc.plan import Cell

FOLDER = "slurm"


@dataclass(frozen=True)
class Submission:
    """One submission.

    Attributes:
        folder: of its files.
        jobs: ids of the arrays.
        offsets: the first element of each array, counted over all of them.
        shards: how many elements there are.
        tasks: in them.
        cluster: name of the Slurm that has them; "" where that was not told.
        logs: folder of what the jobs print.
        gather: id of the job that gathers; None where there is none.
        track: id of the job that shows; None where there is none.
    """

    folder: Path
    jobs: list[str]
    offsets: list[int]
    shards: int
    tasks: int
    cluster: str
    logs: str
    gather: str | None = None
    track: str | None = None

    def element(self, job: str, index: int) -> int | None:
        """The element that an index of one of the arrays is, counted over all of them."""
        return self.offsets[self.jobs.index(job)] + index if job in self.jobs else None

    def all_jobs(self) -> list[str]:
        """Ids of all jobs."""
        return [*self.jobs, *(job for job in (self.gather, self.track) if job is not None)]


def write(submission: Submission) -> None:
    """Write submission.json."""
    fields = dataclasses.asdict(submission)
    del fields["folder"]
    atomic.write_text(submission.folder / "submission.json", json.dumps(fields, indent=1) + "\n")


def found(sweep: Path) -> list[Submission]:
    """The submissions of a sweep, the oldest first."""
    files = sorted((sweep / FOLDER).glob("[0-9]*/submission.json"), key=lambda file: int(file.parent.name))
    return [Submission(file.parent, **json.loads(file.read_text(encoding="utf-8"))) for file in files]


def following(sweep: Path) -> Path:
    """The folder of the next submission."""
    numbers = [int(folder.name) for folder in (sweep / FOLDER).glob("[0-9]*") if folder.name.isdecimal()]
    return sweep / FOLDER / f"{max(numbers, default=0) + 1:03}"


def write_shards(folder: Path, shards: Sequence[Sequence[Cell]], workers: int) -> int:
    """Write the shards, those of `workers` in a row for each element of the array; how many elements there are."""
    for place, shard in enumerate(shards):
        element, worker = divmod(place, workers)
        name = f"{element:04}" if workers == 1 else f"{element:04}-{worker}"
        plan.write_lines(folder / "shards" / f"{name}.jsonl", shard)
    return -(-len(shards) // workers)


def cells(submission: Submission, elements: Iterable[int]) -> Iterator[Cell]:
    """The cells of some elements."""
    for element in elements:
        for file in files(submission, element):
            yield from plan.read_lines(file)


def files(submission: Submission, element: int) -> list[Path]:
    """The shards of an element, one for each of its workers."""
    return sorted((submission.folder / "shards").glob(f"{element:04}[.-]*jsonl"))


def begun(submission: Submission) -> bool:
    """Whether any element has left a trace: a task that it began, or a log."""
    folders = submission.folder / "attempts", Path(submission.logs)
    return any(any(folder.glob("*")) for folder in folders if folder.is_dir())

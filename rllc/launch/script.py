"""The scripts that are submitted: the templates of jobs/, filled in."""

import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path

from rllc.config import Slurm
from rllc.launch.size import gpus_each

MARGIN = 20  # seconds before the time limit in which an element is requeued, and which no task gets
PLACE = ("account", "partition", "qos", "constraint", "reservation", "time", "mem")
TOLD = ("comment", "mail_user", "mail_type")


def array(launch: Slurm, sweep: Path, folder: Path) -> str:
    """The script of the elements of the array; `folder` is that of the submission."""
    options = [
        *_given(launch, (*PLACE, "exclude", "nodelist", *TOLD, "dependency", "gres")),
        *([f"--gpus-per-node={launch.gpus}"] if launch.gpus else []),
        "--nodes=1", "--ntasks=1", f"--cpus-per-task={launch.cpus}", f"--signal=B:USR1@{launch.signal_seconds}",
        "--requeue" if launch.requeue else "--no-requeue", *_output(launch, folder, "%A_%a"), *launch.extra_sbatch,
    ]  # fmt: skip
    srun = "" if launch.srun is None else shlex.join(_SRUN) + "".join(f" {word}" for word in launch.srun) + " "
    return _filled(
        "array.sbatch",
        {
            "options": _lines(launch, sweep, "", options),
            "sweep": shlex.quote(str(sweep)),
            "submission": shlex.quote(str(folder)),
            "setup": _setup(launch, folder),
            "srun": srun.replace("CPUS", '"${SLURM_CPUS_PER_TASK:-1}"'),
            "python": _python(launch),
            "attempts": str(launch.attempts),
            "grace": str(max(launch.signal_seconds // 2, launch.signal_seconds - MARGIN)),
            "requeue": "yes" if launch.requeue else "no",
            "max_requeues": str(launch.max_requeues),
        },
    )


_SRUN = ("srun", "--ntasks=1", "--cpus-per-task=CPUS", "--kill-on-bad-exit=0")


def training(launch: Slurm, run: Path, folder: Path, *, processes: int | None) -> str:
    """The script of the job that trains a run; `processes` of each node, null for one for each GPU."""
    options = [
        *_given(launch, (*PLACE, "exclude", "nodelist", *TOLD, "dependency", "gres")),
        *([f"--gpus-per-node={launch.gpus}"] if launch.gpus else []),
        "--nodes=1", f"--ntasks-per-node={processes or max(1, gpus_each(launch))}",
        f"--cpus-per-task={launch.cpus}", f"--signal=B:USR1@{launch.signal_seconds}",
        "--requeue" if launch.requeue else "--no-requeue", *_output(launch, folder, "%j"), *launch.extra_sbatch,
    ]  # fmt: skip
    return _filled(
        "train.sbatch",
        {
            "options": _lines(launch, run, "", options),
            "run": shlex.quote(str(run)),
            "setup": _setup(launch, folder),
            "srun": "".join(f"{word} " for word in launch.srun or ()),
            "python": _python(launch),
            "requeue": "yes" if launch.requeue else "no",
            "max_requeues": str(launch.max_requeues),
        },
    )


def after(launch: Slurm, sweep: Path, folder: Path, jobs: Sequence[str]) -> str:
    """The script of the job that gathers, clusters and draws the report when these jobs have ended."""
    options = [
        *_given(launch, (*PLACE, *TOLD)), f"--dependency=afterany:{':'.join(jobs)}", "--nodes=1", "--ntasks=1",
        *_output(launch, folder, "gather-%j"), *launch.extra_gather,
    ]  # fmt: skip
    command = f"rllc.after {shlex.quote(str(folder))}"
    return _beside(launch, sweep, folder, "-gather", options, "it gathers, clusters and draws the report", command)


def beside(launch: Slurm, sweep: Path, folder: Path, module: str, words: Sequence[str]) -> str:
    """The script of the job that shows what is done while the array runs."""
    options = [
        *_given(launch, (*PLACE, "comment")), "--nodes=1", "--ntasks=1", *_output(launch, folder, "track-%j"),
        *launch.extra_gather,
    ]  # fmt: skip
    what = "it shows what is done in Weights & Biases"
    return _beside(launch, sweep, folder, "-track", options, what, f"{module} {shlex.join(words)}")


def _beside(
    launch: Slurm, sweep: Path, folder: Path, suffix: str, options: Iterable[str], what: str, command: str
) -> str:
    return _filled(
        "beside.sbatch",
        {
            "options": _lines(launch, sweep, suffix, options),
            "what": what,
            "setup": _setup(launch, folder),
            "python": _python(launch),
            "command": command,
        },
    )


def logs(launch: Slurm, folder: Path) -> Path:
    """Where the jobs of a submission write what they print."""
    return folder / "logs" if launch.log_dir is None else Path(launch.log_dir).resolve()


def _given(launch: Slurm, names: Iterable[str]) -> list[str]:
    """Options of sbatch for the keys that are not null."""
    return [
        f"--{name.replace('_', '-')}={value}" for name in names if (value := getattr(launch, name)) is not None
    ]  # fmt: skip


def _output(launch: Slurm, folder: Path, name: str) -> list[str]:
    place = str(logs(launch, folder)).replace("%", "%%")
    return [f"--output={place}/{name}.out", "--open-mode=append"]


def _lines(launch: Slurm, sweep: Path, suffix: str, options: Iterable[str]) -> str:
    name = f"--job-name={launch.job_name or f'rllc-{sweep.name}'}{suffix}"
    return "\n".join(f"#SBATCH {_quoted(option)}" for option in (name, *options))


def _quoted(option: str) -> str:
    """An option as the lines of a script take it."""
    if re.fullmatch(r"[\w@%+=:,./\[\]*&|-]+", option):
        return option
    name, equals, value = option.partition("=")
    escaped = re.sub(r'(["\\])', r"\\\1", value)
    return f'{name}="{escaped}"' if equals else option


def _setup(launch: Slurm, folder: Path) -> str:
    """What the site needs, and the variables of the workers."""
    lines = list(launch.setup)
    if launch.scratch is not None:
        place = re.sub(r'(["`])', r"\\\1", launch.scratch)
        lines += [
            f'scratch="{place}/rllc-$(id -u)"',
            'export RLLC_CACHE="$scratch/cache" HF_HOME="$scratch/hub"',
            'mkdir -p "$RLLC_CACHE" "$HF_HOME"',
        ]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in launch.env.items()]
    if launch.snapshot:
        code = shlex.quote(str(folder / "code"))
        lines.append(f'export PYTHONPATH={code}:"$PWD${{PYTHONPATH:+:$PYTHONPATH}}"')
    return "\n".join(lines) or "# (launch.setup and launch.env are empty)"


def _python(launch: Slurm) -> str:
    """The interpreter, in its container; a copy of the code comes before that in the working folder."""
    python = shlex.quote(sys.executable) if launch.python is None else launch.python
    words = [*([launch.container] if launch.container else []), python, *(["-P"] if launch.snapshot else [])]
    return f"{' '.join(words)} -m"


def _filled(template: str, values: Mapping[str, str]) -> str:
    text = resources.files("rllc.jobs").joinpath(template).read_text(encoding="utf-8")
    found = set(re.findall(r"@([a-z_]+)@", text))
    assert found == set(values), f"{template}: {found ^ set(values)}"
    return re.sub(r"@([a-z_]+)@", lambda name: values[name[1]], text)

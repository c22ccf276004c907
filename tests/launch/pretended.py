"""Commands of a Slurm that is not there: what they are asked is written down, what they answer lies in files."""

from dataclasses import dataclass
from pathlib import Path

COMMANDS = {
    "sbatch": """
if [ -e "$here/refuse" ] && [[ "$*" == *$(cat "$here/refuse")* ]]; then
  echo "sbatch: error: Batch job submission failed: $(cat "$here/why")" >&2; exit 1
fi
if [[ "$*" == *--test-only* ]]; then cat > "$here/tested"; echo "sbatch: Job 1 to start at noon" >&2; exit 0; fi
n=$(($(cat "$here/next" 2>/dev/null || echo 100) + 1)); echo $n > "$here/next"; echo "$n;fake"
""",
    "squeue": '[ -e "$here/queue" ] || { echo "slurm_load_jobs error" >&2; exit 1; }; cat "$here/queue"',
    "scontrol": """
[ -e "$here/max" ] || { echo "slurm_load_ctl_conf error" >&2; exit 1; }
[ "$1 $2" = "show config" ] && echo "ClusterName             = fake" && echo "MaxArraySize  = $(cat "$here/max")"
cat "$here/job" 2>/dev/null || true
""",
    "sacct": '[ -e "$here/sacct" ] || exit 1; cat "$here/sacct"',
    "scancel": "",
    "srun": 'while [[ "$1" == --* ]]; do shift; done; exec "$@"',
}


@dataclass(frozen=True)
class Site:
    """A cluster by the folder of its answers."""

    folder: Path

    def asked(self, command: str) -> list[str]:
        """What a command was called with, each time, in order."""
        file = self.folder / f"{command}.log"
        return file.read_text().splitlines() if file.exists() else []

    def answer(self, name: str, text: str) -> None:
        """Let a command say this."""
        (self.folder / name).write_text(text)

    def queue(self, *elements: str, state: str = "RUNNING", reason: str = "None") -> None:
        """Let these be queued: "101_3" is an element of an array."""
        fields = [element.split("_") for element in elements]
        self.answer(
            "queue", "".join(f"{job}|{index[0] if index else 'N/A'}|{state}|{reason}\n" for job, *index in fields)
        )


def build(folder: Path) -> Site:
    """The commands in folder/bin, and a queue with nothing in it."""
    (folder / "bin").mkdir(parents=True)
    for name, code in COMMANDS.items():
        file = folder / "bin" / name
        file.write_text(f'#!/bin/bash\nhere={folder}\necho "$*" >> "$here/{name}.log"\n{code}\n')
        file.chmod(0o755)
    found = Site(folder)
    found.answer("max", "1001")
    found.queue()
    return found

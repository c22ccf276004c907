"""A Slurm of simulated nodes on this machine: what it says of jobs, and the accidents that can be given to it."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tiny import alive, until

SCRIPTS = Path(__file__).parents[2] / "jobs"
ALIVE = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "PREEMPTED", "REQUEUED", "SIGNALING")
GONE = suppress(OSError)  # of a process that has ended in between, or is of another user


@dataclass(frozen=True)
class Cluster:
    """A cluster by its folder, with what it was started with."""

    folder: Path
    settings: dict[str, str]

    @property
    def configuration(self) -> str:
        """What SLURM_CONF has to be."""
        return str(self.folder / "etc" / "slurm.conf")

    def start(self) -> None:
        """Bring up what is down, all of it the first time."""
        self._script("start_slurm.sh", str(self.folder))

    def begin(self) -> None:
        """Start it, and anew where it does not run a job on each node within 20 s."""
        for _ in range(3):
            self.start()
            nodes = self.settings["NODES"]
            with suppress(subprocess.SubprocessError):
                environment = {**os.environ, "SLURM_CONF": self.configuration}
                words = ["srun", "-N", nodes, "-n", nodes, "--mem=10M", "true"]
                subprocess.run(words, env=environment, capture_output=True, check=True, timeout=20)
                return
            self.stop()
        raise AssertionError("no Slurm of simulated nodes could be started")

    def stop(self) -> None:
        """End the daemons and jobs, and remove the folder."""
        self._script("stop_slurm.sh", str(self.folder), "--purge")

    def _script(self, name: str, *words: str) -> None:
        done = subprocess.run(
            [SCRIPTS / name, *words], env={**os.environ, **self.settings}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def ask(self, *command: str) -> str:
        """What a command of Slurm prints."""
        environment = {**os.environ, "SLURM_CONF": self.configuration}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    def queue(self, *jobs: str) -> dict[str, tuple[str, str]]:
        """State and reason of each element of the jobs that has not ended."""
        text = self.ask("squeue", "-h", "-r", "-t", "all", "-j", ",".join(jobs), "-o", "%i|%T|%r")
        lines = (line.split("|") for line in text.splitlines())
        return {element: (state, reason) for element, state, reason in lines if state in ALIVE}

    def state(self, element: str) -> str:
        """The state of one element, as "12_0"; "" when it has ended."""
        return self.queue(element).get(element, ("", ""))[0]

    def finish(self, *jobs: str, seconds: float = 120.0) -> None:
        """Wait until the jobs have ended.

        Slurm lets a requeued job wait for two minutes; here it goes on after 4 s (sooner it would be refused). What
        it holds after a controller that was killed is released, as an administrator would.
        """
        since: dict[str, float] = {}

        def over() -> bool:
            left = self.queue(*jobs)
            for element, (_, reason) in left.items():
                if "held" in reason:
                    self.start()
                    self.ask("scontrol", "release", element)
                elif reason != "BeginTime":
                    since.pop(element, None)
                elif time.monotonic() - since.setdefault(element, time.monotonic()) > 4:
                    self.ask("scontrol", "update", f"JobId={element}", "StartTime=now")
            return not left

        until(over, seconds=seconds, every=0.3)

    def ended(self, *jobs: str) -> dict[str, tuple[str, str]]:
        """State and exit code of each element as sacct has them; it hears of an end some seconds later."""
        lines = self.ask("sacct", "-X", "-n", "-P", "-j", ",".join(jobs), "-o", "JobID,State,ExitCode").splitlines()
        return {element: (state.split()[0], code) for element, state, code in (line.split("|") for line in lines)}

    def kill_controller(self) -> None:
        """End slurmctld without a word."""
        pid = int((self.folder / "run" / "slurmctld.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive([pid]))

    def crash(self, node: str) -> None:
        """Take the power from a node: its daemon, guards and jobs are gone at once."""
        os.kill(int((self.folder / "run" / f"slurmd-{node}.pid").read_text()), signal.SIGKILL)
        for pid in [*self._guards(node), *self._jobs(node)]:
            with GONE:
                os.kill(pid, signal.SIGKILL)

    def _jobs(self, node: str) -> Iterator[int]:
        """The processes that jobs have on a node."""
        ours, there = f"SLURM_CONF={self.configuration}".encode(), f"SLURMD_NODENAME={node}".encode()
        for file in Path("/proc").glob("[0-9]*/environ"):
            with GONE:
                variables = file.read_bytes().split(b"\0")
                if ours in variables and there in variables:
                    yield int(file.parent.name)

    def _guards(self, node: str) -> Iterator[int]:
        """The step daemons of a node, known by the job they guard: the parents of its processes."""
        for pid in self._jobs(node):
            with GONE:
                status = (Path("/proc") / str(pid) / "status").read_text()
                parent = int(re.search(r"PPid:\s*(\d+)", status)[1])
                if Path(f"/proc/{parent}/comm").read_text().startswith("slurmstepd"):
                    yield parent

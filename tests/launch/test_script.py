"""What the scripts say, and what the script of an element does, run without Slurm and with a worker that is a stub."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pretended import Site
from tiny import until

from rllc import composition
from rllc.config import Slurm
from rllc.launch import script

NOTHING = ("launch.python=python3",)


def settings(*words: str) -> Slurm:
    found = composition.compose(["launch=slurm", *NOTHING, *words]).launch
    assert isinstance(found, Slurm)
    return found


def options(text: str) -> list[str]:
    return re.findall(r"^#SBATCH (.*)$", text, re.MULTILINE)


def test_keys_that_are_null_are_not_sent() -> None:
    assert options(script.array(settings(), Path("/s/demo"), Path("/s/demo/slurm/001"))) == [
        "--job-name=rllc-demo", "--nodes=1", "--ntasks=1", "--cpus-per-task=1", "--signal=B:USR1@120", "--requeue",
        "--output=/s/demo/slurm/001/logs/%A_%a.out", "--open-mode=append",
    ]  # fmt: skip


def test_every_key_is_sent_and_the_extra_ones_come_last() -> None:
    words = (
        "launch.account=lab", "launch.partition=gpu", "launch.qos=low", "launch.constraint='a100|h100'",
        "launch.exclude='n[1-3]'", "launch.nodelist=n7", "launch.reservation=r", "launch.time='1-2:00:00'",
        "launch.gpus=2", "launch.cpus=8", "launch.mem=8G", "launch.signal_seconds=60", "launch.requeue=false",
        "launch.job_name=j", "launch.comment='two words \"and\" more'", "launch.mail_user=me@lab.org",
        "launch.mail_type='END,FAIL'", "launch.dependency='afterok:3'", "launch.log_dir=/logs/100%",
        "launch.extra_sbatch=['--nice=5','--partition=other']",
    )  # fmt: skip
    assert options(script.array(settings(*words), Path("/s/demo"), Path("/s/demo/slurm/001"))) == [
        "--job-name=j", "--account=lab", "--partition=gpu", "--qos=low", "--constraint=a100|h100", "--reservation=r",
        "--time=1-2:00:00", "--mem=8G", "--exclude=n[1-3]", "--nodelist=n7", r'--comment="two words \"and\" more"',
        "--mail-user=me@lab.org", "--mail-type=END,FAIL", "--dependency=afterok:3", "--gpus-per-node=2", "--nodes=1",
        "--ntasks=1", "--cpus-per-task=8", "--signal=B:USR1@60", "--no-requeue", "--output=/logs/100%%/%A_%a.out",
        "--open-mode=append", "--nice=5", "--partition=other",
    ]  # fmt: skip


def test_every_key_of_the_group_does_something() -> None:
    """No key may be accepted and then forgotten: changed alone, each changes a script or is known to act elsewhere."""
    elsewhere = {"kind", "shards", "running", "max_array", "gather", "track", "wait", "dry_run"}
    changed: dict[str, object] = {
        "gpus": 2, "cpus": 3, "signal_seconds": 33, "requeue": False, "max_requeues": 3, "attempts": 7,
        "setup": ["module load x"], "env": {"A": "b"}, "srun": None, "extra_sbatch": ["--nice"],
        "extra_gather": ["--nice"], "snapshot": True, "time": "7",
    }  # fmt: skip
    plain, place = settings(), (Path("/s/demo"), Path("/s/demo/slurm/001"))

    def text(launch: Slurm) -> str:
        return script.array(launch, *place) + script.after(launch, *place, ["1"])

    import dataclasses

    for field in dataclasses.fields(Slurm):
        if field.name not in elsewhere | {"workers_per_gpu"}:
            other = dataclasses.replace(plain, **{field.name: changed.get(field.name, "word")})
            assert text(other) != text(plain), field.name


def test_an_interpreter_in_a_container_with_caches_on_the_node() -> None:
    launch = settings(
        "launch.container='apptainer exec --nv a.sif'", "launch.scratch=\\${TMPDIR}", "launch.snapshot=true",
        "launch.setup=['module load cuda']", "+launch.env.WORD=\"it's\"", "launch.srun=['--mpi=none']",
    )  # fmt: skip
    text = script.array(launch, Path("/s/a demo"), Path("/s/a demo/slurm/001"))
    assert "--mpi=none apptainer exec --nv a.sif python3 -P -m rllc.launch.element" in text
    assert 'scratch="${TMPDIR}/rllc-$(id -u)"' in text
    assert text.index("module load cuda") < text.index("export WORD='it'\"'\"'s'")
    assert "export PYTHONPATH='/s/a demo/slurm/001/code':\"$PWD${PYTHONPATH:+:$PYTHONPATH}\"" in text
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
    assert "srun" not in script.array(settings("launch.srun=null"), Path("/s"), Path("/s/1")).split("exec ")[1][:20]


class Element:
    """An element whose workers are a stub: `stub` is a bash script that plays the module `rllc.launch.element`."""

    def __init__(self, folder: Path, stub: str, *words: str) -> None:
        self.folder = folder / "a sweep" / "slurm" / "001"
        self.attempts = self.folder / "attempts" / "0007.jsonl"
        self.attempts.parent.mkdir(parents=True)
        (self.folder / "shards").mkdir()
        (self.folder / "shards" / "0007.jsonl").touch()
        (folder / "stub").write_text(
            f'#!/bin/bash\nbegin() {{ echo "{{\\"key\\": \\"$1\\"}}" >> "{self.attempts}"; }}\n'
            f'end() {{ echo "{{\\"key\\": \\"$1\\", \\"end\\": \\"$2\\"}}" >> "{self.attempts}"; }}\n'
            f'echo "$*" >> {folder}/started\n{stub}\n'
        )
        (folder / "stub").chmod(0o755)
        self.started = folder / "started"
        launch = settings(f"launch.python={folder}/stub", *words)
        self.script = folder / "array.sbatch"
        self.script.write_text(script.array(launch, self.folder.parents[1], self.folder))

    @contextmanager
    def run(self, **environment: str) -> Iterator["subprocess.Popen[str]"]:
        """The script as Slurm starts it, element 2 of an array that begins at 5."""
        given = {"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_JOB_ID": "55", "SLURM_CPUS_PER_TASK": "4", **environment}
        with subprocess.Popen(
            ["bash", str(self.script), "5"], env={**os.environ, **given}, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def ends(self, **environment: str) -> tuple[int, str]:
        """Exit code and what was said."""
        with self.run(**environment) as process:
            out, err = process.communicate(timeout=30)
        assert out == ""
        return process.returncode, err


@pytest.mark.parametrize("code", [0, 1])
def test_the_code_of_the_workers_is_that_of_the_element(code: int, site: Site, tmp_path: Path) -> None:
    element = Element(tmp_path, f"exit {code}")
    assert element.ends() == (code, "")
    shard = element.folder / "shards" / "0007.jsonl"
    assert element.started.read_text() == (
        f"-m rllc.launch.element {element.folder.parents[1]} {shard} --threads 4 --attempts 3 --grace 100\n"
    )
    assert site.asked("srun")[0].startswith("--ntasks=1 --cpus-per-task=4 ")
    assert site.asked("scontrol") == []


@pytest.mark.usefixtures("site")
def test_a_shard_that_the_node_does_not_see_is_told_in_a_line(tmp_path: Path) -> None:
    element = Element(tmp_path, "exit 0")
    (element.folder / "shards" / "0007.jsonl").unlink()
    code, err = element.ends()
    assert code == 1
    assert re.fullmatch(r"rllc: \S+ does not see .*/0007.jsonl; root= must be a folder that all nodes share\.\n", err)


@pytest.mark.usefixtures("site")
def test_an_interpreter_that_is_not_there_is_told(tmp_path: Path) -> None:
    element = Element(tmp_path, "")
    (tmp_path / "stub").unlink()
    code, err = element.ends()
    assert code == 127
    assert "cannot start the worker; see launch.python" in err


def test_workers_that_are_killed_start_again_as_long_as_they_begin_tasks(site: Site, tmp_path: Path) -> None:
    element = Element(
        tmp_path, 'n=$(wc -l < "$0.n" 2>/dev/null || echo 0); echo >> "$0.n"; [ $n -lt 3 ] && begin $n; kill -9 $$'
    )
    code, err = element.ends()
    assert code == 137
    assert len(element.started.read_text().splitlines()) == 4
    assert err.count("the workers of shard 0007 were killed (code 137); started again with what is left.") == 3
    assert site.asked("scontrol") == []


LATE = "trap 'end a done; exit 75' USR1; begin a; while :; do sleep 0.05; done"
HASTY = "trap 'exit 75' USR1; begin a; while :; do sleep 0.05; done"
DEAF = "begin a; end a done; while :; do sleep 0.05; done"  # killed by the signal, as while it starts
WHOLE = "trap 'end a done; exit 0' USR1; begin a; while :; do sleep 0.05; done"


@pytest.mark.parametrize(
    ("stub", "words", "environment", "ends", "requeued", "said"),
    [
        (LATE, (), {}, 75, True, ""),
        (DEAF, (), {}, 75, True, ""),
        (WHOLE, (), {}, 0, False, ""),
        (HASTY, (), {}, 75, False, "no task ended since it started"),
        (LATE, ("launch.requeue=false",), {}, 75, False, "launch.requeue is false"),
        (LATE, ("launch.max_requeues=3",), {"SLURM_RESTART_COUNT": "2"}, 75, True, ""),
        (LATE, ("launch.max_requeues=3",), {"SLURM_RESTART_COUNT": "3"}, 75, False, "it was requeued 3 times"),
    ],
)
def test_near_its_limit_an_element_is_requeued_if_that_helps(
    stub: str, words: tuple[str, ...], environment: dict[str, str], ends: int, requeued: bool, said: str,
    site: Site, tmp_path: Path,
) -> None:  # fmt: skip
    element = Element(tmp_path, stub, *words)
    with element.run(**environment) as process:
        until(lambda: element.attempts.exists() and element.attempts.read_text().count("\n") >= 1 + (stub == DEAF))
        process.send_signal(signal.SIGUSR1)
        _, err = process.communicate(timeout=30)
    assert process.returncode == ends
    assert site.asked("scontrol") == (["requeue 55_2"] if requeued else [])
    assert said in err
    assert bool(said) == ("not requeued" in err)
    assert ("rllc: time limit near; shard 0007 is requeued\n" in err) == requeued


def test_an_element_that_is_cancelled_is_never_requeued(site: Site, tmp_path: Path) -> None:
    element = Element(tmp_path, "trap 'exit 143' TERM; begin a; end a done; while :; do sleep 0.05; done")
    with element.run() as process:
        until(lambda: element.attempts.exists())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 143
    assert site.asked("scontrol") == ["show job 55_2"]


def test_cancelled_in_the_steps_alone_it_is_not_requeued_either(site: Site, tmp_path: Path) -> None:
    element = Element(tmp_path, "begin a; exit 143")
    assert element.ends()[0] == 143
    assert len(element.started.read_text().splitlines()) == 1
    assert site.asked("scontrol") == ["show job 55_2"]


def test_a_preempted_element_waits_to_be_requeued_by_slurm(site: Site, tmp_path: Path) -> None:
    site.answer("job", "   PreemptEligibleTime=2026-01-01T00:00:00 PreemptTime=2026-01-01T00:00:00\n")
    element = Element(tmp_path, "trap 'exit 143' TERM; begin a; while :; do sleep 0.05; done")
    with element.run() as process:
        until(lambda: element.attempts.exists())
        process.send_signal(signal.SIGTERM)
        until(lambda: site.asked("scontrol"))
        time.sleep(0.5)
        assert process.poll() is None


def test_signals_in_a_row_do_not_lose_the_code(site: Site, tmp_path: Path) -> None:
    element = Element(tmp_path, "trap '' USR1; begin a; sleep 1; end a done; exit 1")
    with element.run() as process:
        until(lambda: element.attempts.exists())
        for _ in range(20):
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.02)
        process.communicate(timeout=30)
    assert process.returncode == 1
    assert site.asked("scontrol") == []

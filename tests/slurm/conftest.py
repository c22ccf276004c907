import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import drill
import pytest
from cluster import Cluster
from tiny import Job

COMMANDS = ("munged", "slurmctld", "slurmd", "sbatch", "slurmdbd", "mariadbd")
PACKAGES = "slurmctld slurmd slurm-client munge slurmdbd mariadb-server"


@contextmanager
def locked(file: Path, how: int) -> Iterator[int]:
    """Hold a lock of this machine; it ends with the process, too."""
    number = os.open(file, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(number, how)
        yield number
    finally:
        os.close(number)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this test run share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def possible() -> None:
    """Skip where no Slurm can be started."""
    missing = [command for command in COMMANDS if not shutil.which(command)]
    if missing or os.geteuid():
        pytest.skip(f"a Slurm of simulated nodes needs root and the Debian packages {PACKAGES}")


@pytest.fixture(scope="session")
def site(shared: Path) -> Iterator[Cluster]:
    """One cluster with accounting for all drills of this test run; whoever leaves it last stops it."""
    possible()
    prefix = f"{shared.name.replace('pytest-', 'p')}n"
    cluster = Cluster(shared / "slurm", {"NODES": "8", "ACCOUNTING": "dbd", "PREFIX": prefix})
    with locked(shared / "slurm.users", fcntl.LOCK_SH) as users:
        cluster.start()
        yield cluster
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        cluster.stop()


@pytest.fixture
def cluster(site: Cluster, shared: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The cluster, with other drills beside this one."""
    monkeypatch.setenv("SLURM_CONF", site.configuration)
    with locked(shared / "slurm.peace", fcntl.LOCK_SH):
        yield site


@pytest.fixture
def alone(site: Cluster, shared: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The cluster, for a drill that disturbs whatever else runs on it; whole again afterwards."""
    monkeypatch.setenv("SLURM_CONF", site.configuration)
    with locked(shared / "slurm.peace", fcntl.LOCK_EX):
        yield site
        site.start()


@pytest.fixture
def bare(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A small cluster of its own, without accounting or a warning of preemption, with three elements an array.

    Its folder is not the test's own: sockets of job steps lie in it, whose paths may have 107 letters.
    """
    possible()
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    prefix = f"{shared.name.replace('pytest-', 'p')}{worker}bare"
    settings = {"NODES": "2", "GPUS": "0", "MAX_ARRAY": "3", "CONTROLLER": "", "PREFIX": prefix}
    cluster = Cluster(shared / f"bare{worker}", settings)
    cluster.begin()
    monkeypatch.setenv("SLURM_CONF", cluster.configuration)
    yield cluster
    cluster.stop()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """The sweep of a drill, not begun: two shards, a core and a gigabyte each."""
    options = {"launch": "slurm", "launch.shards": 2, "launch.cpus": 1, "launch.mem": "1G"}
    return drill.fresh(tmp_path, **options)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """The same sweep by local processes when nothing happens to it; not to be changed."""
    job = drill.fresh(tmp_path_factory.mktemp("undisturbed"))
    done = job.do("sweep")
    assert done.returncode == 0, done.stderr
    return job

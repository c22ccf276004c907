"""The wheel works from any folder, and what needs no torch works without torch and on every supported Python."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CURVES = ROOT / "tests" / "fixtures" / "tiny_reference" / "rllc.csv"
COMMAND = "import sys; from rllc.cli import main; sys.exit(main())"


def call(*words, **options):
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, timeout=600, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def newest():
    """The newest other interpreter that rllc supports and that runs: on PATH, or one that pyenv keeps."""
    for python in ("python3.13", "python3.12"):
        kept = sorted(Path.home().glob(f".pyenv/versions/{python.removeprefix('python')}*/bin/{python}"))
        for candidate in [shutil.which(python), *kept]:
            if candidate and subprocess.run([candidate, "--version"], capture_output=True, check=False).returncode == 0:
                return candidate
    return None


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A wheel of this tree, unpacked into a folder of its own."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("target")
    for name in ("rllc", "conf", "jobs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", target, source)
    (wheel,) = target.glob("rllc-*.whl")
    call(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target / "lib", wheel)
    return target / "lib"


@pytest.mark.slow
def test_a_wheel_brings_its_configuration_and_works_from_any_folder(installed, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(installed)}
    where = call(
        sys.executable,
        "-c",
        "import rllc, rllc.conf; print(rllc.__file__, *rllc.conf.__path__)",
        cwd=tmp_path,
        env=environment,
    )
    assert where.count(str(installed)) == 2
    shown = call(sys.executable, "-c", COMMAND, "sweep", "--cfg", "job", cwd=tmp_path, env=environment)
    for group in ("d_vocab: 512", "nbeta: 30.0", "stdlib_code:", "kind: local", "kind: none", "methods:"):
        assert group in shown
    packed = {path.relative_to(installed / "rllc" / "conf") for path in (installed / "rllc" / "conf").rglob("*.yaml")}
    assert packed == {path.relative_to(ROOT / "conf") for path in (ROOT / "conf").rglob("*.yaml")}
    call(
        sys.executable, "-c", COMMAND, "train", "train.steps=3", "train.checkpoints.every=3", "train.checkpoints.log=0",
        "grid.steps=[0,3]", cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert (tmp_path / "runs" / "stdlib-s0" / "checkpoints" / "step_0000003.safetensors").exists()


@pytest.mark.slow
def test_clustering_and_report_work_without_torch(installed, tmp_path):
    interpreter = newest()
    if interpreter is None:
        pytest.skip("neither Python 3.13 nor 3.12 is installed")
    call(interpreter, "-m", "venv", tmp_path / "venv")
    needed = [
        "numpy",
        "scipy",
        "hydra-core",
        "omegaconf",
        "pyyaml",
        "threadpoolctl",
        "scikit-learn",
        "tslearn",
        "dtaidistance",
        "pyarrow",
        "matplotlib",
        "rich",
    ]
    call(tmp_path / "venv/bin/pip", "install", "--quiet", "-c", ROOT / "constraints.txt", *needed)
    environment = os.environ | {"PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}
    for verb in ("cluster", "report"):
        call(
            tmp_path / "venv/bin/python", "-c", COMMAND, verb, f"input={CURVES}", "cluster.null_draws=3",
            "cluster.methods=[kmeans,kshape,ward]", cwd=tmp_path, env=environment,
        )  # fmt: skip
    assert (tmp_path / "sweeps" / "rllc" / "clusters" / "labels.csv").exists()
    assert (tmp_path / "sweeps" / "rllc" / "report" / "index.html").exists()

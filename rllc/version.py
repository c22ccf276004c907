"""Which code made a number: the package version and, in a checkout, the commit and whether it was changed."""

import functools
import hashlib
import json
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from rllc import atomic
from rllc.config import differences

COPY = "code.txt"  # beside the modules of a copy: what its code is
PACKAGES = (
    "torch", "numpy", "scipy", "hydra-core", "omegaconf", "tokenizers", "safetensors", "scikit-learn", "tslearn",
    "pyarrow", "matplotlib", "wandb", "devinterp", "jax",
)  # fmt: skip


@functools.cache
def code() -> str:
    """As "0.1.0" from a wheel, "0.1.0+1a2b3c4" from a clean checkout, "0.1.0+1a2b3c4.d5e6f7a" from a changed one.

    A copy of the code says what the code was that it was copied from.
    """
    copy = Path(__file__).parent / COPY
    if copy.exists():
        return copy.read_text(encoding="utf-8")
    try:
        release = metadata.version("rllc")
    except metadata.PackageNotFoundError:
        release = "unknown"
    commit = _git("rev-parse", "--short=7", "HEAD")
    if not commit:
        return release
    changes = _git("diff", "HEAD", "--", "rllc", "conf")
    return f"{release}+{commit}" + (f".{hashlib.sha256(changes.encode()).hexdigest()[:7]}" if changes else "")


def record(sweep: Path) -> None:
    """Write env.json: code, Python and packages; where a sweep goes on with others, say what differs."""
    file = sweep / "env.json"
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    now = {"code": code(), "python": platform.python_version(), "packages": packages()}
    if before == now:
        return
    if before:
        print(
            f"rllc: {sweep} goes on with other code ({'; '.join(differences(before, now))}); each result says which "
            "made it.",
            file=sys.stderr,
        )
    atomic.write_text(file, json.dumps(now, indent=1) + "\n")


def packages() -> dict[str, str]:
    """Versions of the installed packages that numbers and figures depend on."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _git(*words: str) -> str:
    """What git says of the checkout that holds this package, or "" where there is none."""
    root = Path(__file__).parent.parent
    if not (root / ".git").exists():
        return ""
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""

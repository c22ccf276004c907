"""Imports point only downward: the layers of the design, and what each command may load."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import rllc

PACKAGE = Path(rllc.__file__).parent
LAYERS = (
    ("values", "mistake task config measured schema legal resolve intervals"),
    ("means", "backends samplers bias budget convergence diagnostics models zoo data store track train atomic progress "
              "version tail hub csv_tables"),
    ("science", "metrics laws"),
    ("read", "closing meaning plan planning shards kept merge devinterp_store gather status "
             "tables trajectories stages bootstrap scaling nulls "
             "kshape dtw kmedoids stability methods scopes fits cluster rand matching findings head_types "
             "compare separation clustering report"),
    ("run", "labels modules following launch pools work elsewhere runs making catalogue cost probe derive "
            "after submitting sweep calibration validation"),
    ("entry", "cli composition notebook"),
)  # fmt: skip
SIDE_ROOMS = ("circuits", "attribution", "proofs")
HEIGHT = {room: height for height, (_, rooms) in enumerate(LAYERS) for room in rooms.split()}


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name below `rllc`, conf/ left out."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        if name:
            found[name] = path
    return found


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the package that a file imports, late imports and those for types among them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "rllc":
            inside = (node.module or "").partition(".")[2]
            names = {f"{inside}.{alias.name}".lstrip(".") for alias in node.names}
            found |= {name if name in known else inside for name in names} - {""}
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: a relative import"
        if isinstance(node, ast.Import):
            found |= {name for alias in node.names if (name := alias.name.removeprefix("rllc.")) in known}
    return found & set(known)


def test_every_module_has_its_place() -> None:
    rooms = {name.partition(".")[0] for name in modules()} - {"conf"}
    assert rooms - set(SIDE_ROOMS) == set(HEIGHT)


def test_imports_point_only_downward() -> None:
    known = modules()
    upward = [
        f"{name} imports {other}"
        for name, path in known.items()
        for other in imported(path, known)
        if name.partition(".")[0] in HEIGHT
        and HEIGHT.get(other.partition(".")[0], len(LAYERS)) > HEIGHT[name.partition(".")[0]]
    ]
    assert not upward


def test_no_module_is_part_of_a_circle() -> None:
    known = modules()
    graphlib.TopologicalSorter({name: imported(path, known) for name, path in known.items()}).prepare()


def test_the_check_sees_late_imports_and_imports_of_modules_from_packages(tmp_path: Path) -> None:
    file = tmp_path / "some.py"
    file.write_text("from rllc import cli\ndef f():\n    from rllc.data.rows import build\n    import rllc.plan\n")
    assert imported(file, modules()) == {"cli", "data.rows", "plan"}


def test_reading_loads_no_torch_and_status_nothing_heavy() -> None:
    code = """
import importlib, sys
for name in ("rllc", "rllc.status", "rllc.cli", "rllc.gather", "rllc.report", "rllc.clustering"):
    importlib.import_module(name)
    print(name, *sorted({"torch", "sklearn", "tslearn", "matplotlib", "pyarrow", "hydra", "pandas"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {line.split()[0]: set(line.split()[1:]) for line in done.stdout.splitlines()}
    assert loaded["rllc.cli"] == loaded["rllc.status"] == loaded["rllc"] == set()
    assert not [name for name, heavy in loaded.items() if "torch" in heavy]


def test_the_verb_status_loads_nothing_heavy(tmp_path: Path) -> None:
    code = """
import sys
from rllc import cli
sys.argv = ["rllc", "status", *sys.argv[1:]]
cli.main()
print(*sorted({"torch", "sklearn", "tslearn", "matplotlib", "pyarrow"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, f"root={tmp_path}"], capture_output=True, text=True, check=True
    )  # fmt: skip
    assert done.stderr.startswith("rllc: name: there is no plan in ")
    assert done.stdout.split() == []

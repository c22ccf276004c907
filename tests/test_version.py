import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from rllc import version


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of a package with one commit, which `version` takes for its own."""

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e", *words], check=True)

    (tmp_path / "rllc").mkdir()
    (tmp_path / "rllc" / "version.py").write_text("one\n")
    (tmp_path / "README").write_text("one\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    monkeypatch.setattr(version, "__file__", str(tmp_path / "rllc" / "version.py"))
    version.code.cache_clear()
    yield tmp_path
    version.code.cache_clear()


def test_a_clean_checkout_is_its_commit(checkout: Path) -> None:
    commit = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout
    assert version.code() == f"{metadata.version('rllc')}+{commit[:7]}"


def test_each_change_of_the_code_is_another_version_and_no_change_of_other_files(checkout: Path) -> None:
    clean = version.code()
    found = []
    for text in ("two\n", "three\n"):
        (checkout / "rllc" / "version.py").write_text(text)
        version.code.cache_clear()
        found.append(version.code())
    assert len({clean, *found}) == 3
    assert all(re.fullmatch(re.escape(clean) + r"\.[0-9a-f]{7}", one) for one in found)
    (checkout / "rllc" / "version.py").write_text("one\n")
    (checkout / "README").write_text("two\n")
    version.code.cache_clear()
    assert version.code() == clean


def test_a_wheel_is_its_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "__file__", str(tmp_path / "rllc" / "version.py"))
    version.code.cache_clear()
    assert version.code() == metadata.version("rllc")
    version.code.cache_clear()


@pytest.mark.parametrize("fault", [FileNotFoundError("git"), subprocess.TimeoutExpired("git", 10)])
def test_git_that_does_not_answer_is_no_failure(
    fault: Exception, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise fault

    assert checkout.exists()
    monkeypatch.setattr(subprocess, "run", fail)
    assert version.code() == metadata.version("rllc")


def test_packages_are_the_installed_ones() -> None:
    found = version.packages()
    assert found["numpy"] == metadata.version("numpy")
    assert set(found) <= set(version.PACKAGES)


def test_a_copy_of_the_code_says_what_it_was_copied_from(checkout: Path) -> None:
    (checkout / "rllc" / version.COPY).write_text("1.2.3+abc")
    version.code.cache_clear()
    assert version.code() == "1.2.3+abc"


def test_a_sweep_that_goes_on_with_other_code_says_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(version, "code", lambda: "0.1.0+aaaaaaa")
    monkeypatch.setattr(version, "packages", lambda: {"torch": "2.4", "numpy": "1.26"})
    version.record(tmp_path)
    version.record(tmp_path)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(version, "code", lambda: "0.1.0+aaaaaaa.bbbbbbb")
    monkeypatch.setattr(version, "packages", lambda: {"torch": "2.5", "numpy": "1.26"})
    version.record(tmp_path)
    assert capsys.readouterr().err == (
        f"rllc: {tmp_path} goes on with other code (code 0.1.0+aaaaaaa, now 0.1.0+aaaaaaa.bbbbbbb; packages.torch 2.4, "
        "now 2.5); each result says which made it.\n"
    )
    version.record(tmp_path)
    assert capsys.readouterr().err == ""

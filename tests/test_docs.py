"""The commands of the pages on sources are ones that can be given."""

import re
import shlex
from pathlib import Path

import pytest

from rllc import cli, composition

DOCS = Path(__file__).parents[1] / "docs"


def commands(page: str) -> list[str]:
    """The indented lines that start with `rllc`, those that a backslash continues joined, comments left out."""
    text = (DOCS / page).read_text(encoding="utf-8").replace("\\\n", " ")
    found = [line.strip().partition("     #")[0] for line in text.splitlines() if re.match(r" {4}rllc ", line)]
    return [one.strip() for line in found for one in line.split("&&")]


def options(page: str) -> list[str]:
    """The indented lines that are options alone, without the remark after several spaces."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    return [re.split(r" {4,}", line.strip())[0] for line in lines if re.match(r" {4}'data=", line)]


@pytest.mark.parametrize("command", [*commands("sources.md"), *commands("from_devinterp.md")])
def test_a_command_composes(command: str) -> None:
    _, verb, *words = shlex.split(command)
    assert verb in cli.VERBS
    assert composition.compose(words).root


@pytest.mark.parametrize("line", options("sources.md"))
def test_options_compose(line: str) -> None:
    words = shlex.split(line)
    assert len(composition.compose(["source=paper", *words]).data) >= 1


def test_the_pages_have_such_lines() -> None:
    assert len(commands("sources.md")) >= 12
    assert len(options("sources.md")) >= 7

"""The text every Python carries: the standard library's code without docstrings, and its documentation as prose."""

import ast
import functools
import os
import sysconfig
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path

COMPONENTS = ("prose", "code")

# These come and go between Python versions and distributions, or describe the build instead of the library.
_SKIPPED = {"idlelib", "lib2to3", "distutils", "turtledemo", "ensurepip", "encodings", "pydoc_data", "__pycache__"}
_SKIPPED |= {"site-packages", "dist-packages", "lib-dynload"}
_PREFIXES = ("test", "config-", "_sysconfigdata")

_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def paths() -> list[Path]:
    """List the library's own source files in the order of their relative paths."""
    root = Path(sysconfig.get_path("stdlib"))
    found: list[Path] = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in _SKIPPED and not name.startswith(_PREFIXES)]
        found += [Path(folder, name) for name in names if name.endswith(".py") and not name.startswith(_PREFIXES)]
    return sorted(found, key=lambda path: path.relative_to(root).parts)


def documents(component: str) -> Iterator[str]:
    """Yield one document a module: its "code" or its "prose"; the prose ends with the topics of `help()`."""
    for code, prose in _modules():
        yield prose if component == "prose" else code
    if component == "prose":
        from pydoc_data.topics import topics

        for _, text in sorted(topics.items()):
            yield text


def separate(source: str) -> tuple[str, str]:
    """Split Python source into its text without docstrings and the cleaned docstrings joined by blank lines.

    Everything but the docstrings is kept to the letter; a line that held only a docstring goes with it.
    Raises SyntaxError or ValueError where the source does not parse.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    nodes = _documented(tree)
    lines = source.encode().splitlines(keepends=True)
    for node in reversed(nodes):
        _cut(lines, node.body[0])
    prose = "\n\n".join(ast.get_docstring(node) or "" for node in nodes)
    return b"".join(lines).decode(), prose


@functools.cache
def _modules() -> tuple[tuple[str, str], ...]:
    """Read and separate the library once a process (8 MB): every dataset and split asks for the same text."""
    found = []
    for path in paths():
        try:
            with tokenize.open(path) as file:
                found.append(separate(file.read()))
        except (SyntaxError, ValueError):  # some distributions ship templates and samples that are not Python
            continue
    return tuple(found)


def _documented(tree: ast.Module) -> list[_Documented]:
    """List the nodes that have a docstring in the order of the docstrings, without looking into expressions."""
    found: list[_Documented] = []
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, _Documented) and ast.get_docstring(node, clean=False) is not None:
            found.append(node)
        stack += [
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case)
        ]
    return sorted(found, key=lambda node: (node.body[0].lineno, node.body[0].col_offset))


def _cut(lines: list[bytes], docstring: ast.stmt) -> None:
    """Remove one docstring; `ast` counts columns in bytes of UTF-8."""
    assert docstring.end_lineno is not None
    first, last = docstring.lineno - 1, docstring.end_lineno - 1
    rest = lines[first][: docstring.col_offset] + lines[last][docstring.end_col_offset :]
    lines[first : last + 1] = [rest] if rest.strip() else []

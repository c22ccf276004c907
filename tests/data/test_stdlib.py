import ast
import json.decoder
import textwrap
from pathlib import Path

import numpy as np
import pytest

from rllc.config import Dataset
from rllc.data import documents, rows, stdlib, tokenizer

SOURCE = '''\
"""Module über alles."""
# kept
import os

class A:
    """Class.

    More.
    """

    x = "é"; y = 1  # kept

    def f(self): "one line"; return 1

    async def g(self):
        r"""Raw."""
        def inner():
            """Inner."""
            return """not a docstring"""
        return inner
'''


def test_docstrings_are_cut_and_the_rest_is_kept_to_the_letter() -> None:
    code, prose = stdlib.separate(SOURCE)
    assert prose == "Module über alles.\n\nClass.\n\nMore.\n\none line\n\nRaw.\n\nInner."
    assert code == textwrap.dedent('''\
        # kept
        import os

        class A:

            x = "é"; y = 1  # kept

            def f(self): ; return 1

            async def g(self):
                def inner():
                    return """not a docstring"""
                return inner
        ''')


def test_source_without_docstrings_is_unchanged() -> None:
    source = "x = 1\r\n\x0cy = '''a\nb'''\ndef f(): return 'd'"
    assert stdlib.separate(source) == (source, "")


def test_a_module_of_the_library_keeps_its_statements() -> None:
    """The parse of the stripped text is the parse of the source with its docstring nodes removed."""
    source = Path(json.decoder.__file__).read_text(encoding="utf-8")
    tree = ast.parse(source)
    for node in ast.walk(tree):
        has = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None
        if has:
            node.body.pop(0)  # type: ignore[attr-defined]
    assert ast.dump(ast.parse(stdlib.separate(source)[0])) == ast.dump(tree)


def test_warnings_of_the_parser_stay_inside() -> None:
    stdlib.separate('x = "\\d"\nassert (x, "always true")\n')


def test_tests_and_site_packages_are_no_part_of_it() -> None:
    found = stdlib.paths()
    folders = {part for path in found for part in path.parts[:-1]}
    assert {"json", "email", "asyncio"} <= folders
    assert not folders & {"site-packages", "test", "tests", "idlelib", "lib2to3", "encodings", "pydoc_data"}
    assert found == stdlib.paths()
    assert "argparse.py" in {path.name for path in found}


@pytest.mark.slow
def test_the_whole_library_gives_full_pools_that_no_training_row_is_in(tmp_path: Path) -> None:
    mix = Dataset("stdlib", mix={"prose": 1.0, "code": 1.0})
    code = Dataset("stdlib", mix={"code": 1.0})
    path = tmp_path / "tokenizer.json"
    tokenizer.train(documents.train_documents(mix), 512, path)
    train = rows.build("mix", mix, tokenizer=path, n_ctx=64, split="train", folder=tmp_path)
    assert len(train.array()) > 60_000
    known = {row.tobytes() for row in train.array()}
    for name, dataset in (("mix", mix), ("code", code)):
        pool = rows.build(name, dataset, tokenizer=path, n_ctx=64, split="pool", folder=tmp_path, exclude=train.path)
        array = pool.array()
        assert array.shape == (1024, 64)
        assert array.dtype == np.uint16
        assert not known & {row.tobytes() for row in array}
        assert not any("\0" in text for text in documents.train_documents(dataset))
    texts = set(documents.train_documents(mix))
    from rllc.data.split import select

    assert not texts & set(select(documents.documents(code), "pool"))

import dataclasses
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rllc.config import Dataset, Labels
from rllc.data import stdlib
from rllc.data.documents import check, described, documents, fingerprint, train_documents
from rllc.data.split import side
from rllc.mistake import Mistake

MODULES = tuple((f"code {i}\n", f"prose {i}\n") for i in range(100))


@pytest.fixture
def _library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdlib, "_modules", lambda: MODULES)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ({"source": "files"}, "path: a dataset with source 'files' needs the path of a file or folder."),
        ({"source": "files", "path": "x", "mix": {"code": 1.0}}, "mix: {'code': 1.0} belongs to the source 'stdlib'"),
        ({"source": "stdlib"}, "mix: a dataset with source 'stdlib' needs weights of: prose, code."),
        ({"source": "stdlib", "mix": {"poems": 1.0}}, "mix: 'poems' is not one of: prose, code."),
        ({"source": "stdlib", "mix": {"code": 0.0}}, "mix.code: 0.0 is not a weight; give a number above 0"),
        ({"source": "stdlib", "mix": {"code": float("nan")}}, "mix.code: nan is not a weight"),
        ({"source": "stdlib", "mix": {"code": 1.0}, "path": "x"}, "path: 'x' belongs to the source 'files'"),
        ({"source": "stdlib", "mix": {"code": 1.0}, "where": "x"}, "where: 'x' belongs to the source 'files'"),
        ({"source": "files", "path": "x", "limit": 0}, "limit: 0 documents are none"),
        ({"source": "files", "path": "x", "pool": 0}, "pool: 0 rows are none"),
    ],
)
def test_fields_that_do_not_fit_are_mistakes(dataset: dict[str, Any], message: str) -> None:
    with pytest.raises(Mistake) as error:
        check(Dataset(**dataset))
    assert str(error.value).startswith(message)


@pytest.mark.usefixtures("_library")
def test_components_of_the_library() -> None:
    code = [code for code, _ in MODULES]
    assert list(documents(Dataset("stdlib", mix={"code": 1.0}))) == code
    found = list(documents(Dataset("stdlib", mix={"code": 1.0, "prose": 3.0})))
    assert found[:100] == [prose for _, prose in MODULES]
    assert found[-100:] == code
    assert len(found) > 250  # the topics of help() lie between
    assert list(documents(Dataset("stdlib", mix={"code": 1.0}, limit=3))) == code[:3]


@pytest.mark.usefixtures("_library")
def test_the_training_text_has_nothing_of_the_pool() -> None:
    found = list(train_documents(Dataset("stdlib", mix={"code": 1.0})))
    assert found == [code for code, _ in MODULES if side(code) == "train"]
    assert 80 < len(found) < 100


def test_the_fingerprint_follows_the_files(tmp_path: Path, write: Callable[..., Dataset]) -> None:
    dataset = write(["one", "two"])
    folders = [Dataset(source, path=str(tmp_path)) for source in ("files", "hub")]
    before = [fingerprint(each) for each in (dataset, *folders)]
    assert before == [fingerprint(each) for each in (dataset, *folders)]
    stat = (tmp_path / "text.jsonl").stat()
    os.utime(tmp_path / "text.jsonl", ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    after = fingerprint(dataset)
    assert after != before[0]
    (tmp_path / "more.txt").write_text("x")
    assert fingerprint(dataset) == after
    assert all(fingerprint(each) != old for each, old in zip(folders, before[1:], strict=True))


def test_the_fingerprint_of_the_library_reads_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdlib, "_modules", lambda: pytest.fail("text was read"))
    one, two = (fingerprint(Dataset("stdlib", mix=mix)) for mix in ({"code": 1.0}, {"prose": 1.0}))
    assert one == two
    assert len(one) == 16


def test_a_text_is_described_by_all_that_changes_its_rows_and_nothing_else() -> None:
    text = Dataset("hub", path="a/b", limit=7)
    assert described(dataclasses.replace(text, labels=Labels("run@1"))) == described(text)
    changes: list[dict[str, Any]] = [
        {"source": "files"}, {"path": "a/c"}, {"text": "content"}, {"where": 'a == "b"'}, {"limit": 8}, {"pool": 5},
        {"subset": "x"}, {"split": "test"}, {"revision": "v1"}, {"files": "*.txt"}, {"order": 3},
        {"mix": {"code": 1.0}}, {"of": {"x": text}},
    ]  # fmt: skip
    found = [described(text), *(described(dataclasses.replace(text, **change)) for change in changes)]
    assert all(one != other for one, other in itertools.combinations(found, 2))
    assert {key for change in changes for key in change} | {"labels"} == {f.name for f in dataclasses.fields(Dataset)}


def test_fields_that_came_later_are_told_only_where_they_are_set() -> None:
    """Rows that were made before there were such fields are found again."""
    first = {"source", "mix", "path", "text", "where", "limit", "pool"}
    assert described(Dataset("files", path="x")).keys() == first
    assert described(Dataset("hub", path="o/n", subset="s", revision="r")).keys() == first | {"subset", "revision"}

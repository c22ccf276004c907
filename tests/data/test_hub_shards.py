import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from rllc.data import shards
from rllc.data.shards import Damaged, Remote, patiently
from rllc.mistake import Mistake

SHARD = Remote("hf://datasets/owner/name@abc/data/part-0.jsonl.zst")


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr("rllc.data.shards.time.sleep", found.append)
    return found


class Breaking:
    """What reads ten items and breaks off after so many of them, the first times."""

    def __init__(self, *after: int, error: Exception | None = None) -> None:
        self.after, self.error = list(after), error or Damaged("path: it is truncated.")

    def __call__(self) -> Iterator[int]:
        stop = self.after.pop(0) if self.after else None
        for item in range(10):
            if item == stop:
                raise self.error
            yield item


def test_it_goes_on_where_it_broke_off_and_nothing_comes_twice(slept: list[float]) -> None:
    assert list(patiently(SHARD, Breaking(4, 2, 7))) == list(range(10))
    assert slept == list(shards.PAUSES)


def test_the_shard_the_place_and_the_reason_are_told_when_it_does_not_mend(slept: list[float]) -> None:
    found = []
    with pytest.raises(Mistake) as mistake:
        found += patiently(SHARD, Breaking(4, 4, 6, 6))
    assert str(mistake.value) == (
        "path: shard datasets/owner/name@abc/data/part-0.jsonl.zst broke off after 6 documents, 4 times in a row "
        "(it is truncated)."
    )
    assert len(slept) == 3


@pytest.mark.parametrize(
    ("error", "tries"),
    [(ConnectionError("reset"), 2), (EOFError(), 2), (Mistake("text: no such field."), 1), (KeyError("x"), 1)],
)
def test_only_what_another_try_may_mend_is_tried_again(error: Exception, tries: int, slept: list[float]) -> None:
    read = Breaking(3, error=error)
    if tries == 2:
        assert list(patiently(SHARD, read)) == list(range(10))
    else:
        with pytest.raises(type(error)):
            list(patiently(SHARD, read))
    assert len(slept) == tries - 1


def test_a_full_disk_and_a_file_of_this_machine_are_not_tried_again(slept: list[float]) -> None:
    with pytest.raises(OSError, match="full"):
        list(patiently(SHARD, Breaking(3, error=OSError(errno.ENOSPC, "full"))))
    with pytest.raises(Damaged):
        list(patiently(Path("a.jsonl"), Breaking(3)))
    assert not slept


def test_a_remote_file_is_named_as_one_of_this_machine() -> None:
    assert (SHARD.name, SHARD.suffix) == ("part-0.jsonl.zst", ".zst")
    assert str(SHARD) == "datasets/owner/name@abc/data/part-0.jsonl.zst"

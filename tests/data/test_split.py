import random

from rllc.data.split import LONGEST, pieces, select, side

POOL = [4, 11, 12, 19, 25]  # of the first thirty: fixed, or old pools would leak into new training rows


def _lines(count: int) -> str:
    rng = random.Random(0)
    return "".join(f"{rng.random()} " * rng.randint(1, 8) + "\n" for _ in range(count))


def test_pieces_join_to_the_document_and_end_at_line_ends() -> None:
    text = _lines(2000)
    found = list(pieces(text))
    assert "".join(found) == text
    assert len(found) > 10
    assert all(len(piece) <= LONGEST and piece.endswith("\n") for piece in found)


def test_text_without_line_ends_is_cut_at_the_longest_piece() -> None:
    assert [len(piece) for piece in pieces("x" * (2 * LONGEST + 5))] == [LONGEST, LONGEST, 5]
    assert list(pieces("short")) == ["short"]


def test_a_tenth_goes_to_the_pool() -> None:
    share = sum(side(f"document {i}") == "pool" for i in range(20_000)) / 20_000
    assert abs(share - 0.1) < 5 * (0.1 * 0.9 / 20_000) ** 0.5


def test_the_side_is_a_fixed_function_of_the_text() -> None:
    assert [i for i in range(30) if side(f"document {i}") == "pool"] == POOL


def test_the_splits_of_one_long_document_part_it() -> None:
    text = _lines(20_000)
    train, pool = list(select([text], "train")), list(select([text], "pool"))
    assert train
    assert pool
    assert not set(train) & set(pool)
    assert sorted(train + pool) == sorted(pieces(text))


def test_other_documents_of_a_dataset_do_not_move_a_document() -> None:
    code, prose = [f"code {i}" for i in range(300)], [f"prose {i}" for i in range(300)]
    mixed = set(select([*prose, *code], "train"))
    assert not mixed & set(select(code, "pool"))


def test_white_space_is_no_document() -> None:
    assert [*select(["", " \n\t"], "train"), *select(["", " \n\t"], "pool")] == []

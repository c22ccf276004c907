from pathlib import Path

import pytest

from rllc.track import machine

ROOT = Path("/home/ann/rllc")


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("/home/ann/rllc/data/pile.jsonl", "data/pile.jsonl"),
        ("/home/ann/rllc", "."),
        ("/mnt/lab/my code/a.jsonl", "…/a.jsonl"),
        ("~/text.txt", "…/text.txt"),
        ("text at /home/ann/rllc/data/x and /mnt/lab/y.", "text at data/x and …/y."),
        ("data/pile.jsonl", "data/pile.jsonl"),
        ("../elsewhere", "../elsewhere"),
        ("s3://bucket/a/b", "s3://bucket/a/b"),
        ("https://hub/a", "https://hub/a"),
        ("EleutherAI/pythia-70m", "EleutherAI/pythia-70m"),
        ("loss in nats/token, 3/4 of them", "loss in nats/token, 3/4 of them"),
        ("package.module:name", "package.module:name"),
        ({"a": ["/tmp/b", 1, None, 2.5]}, {"a": ["…/b", 1, None, 2.5]}),
    ],
)
def test_paths_are_told_from_the_root_or_by_their_name(value, sent):
    assert machine.hide(value, ROOT) == sent

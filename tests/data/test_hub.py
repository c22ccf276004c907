import dataclasses
import gzip
import io
import json
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hub import Hub, commit, directed

from rllc import composition
from rllc.config import Dataset
from rllc.data import documents, packing, rows, shards, split, tokenizer
from rllc.data import hub as datasets_of_the_hub
from rllc.mistake import Mistake

RECORDS = [
    {"text": f"document {number} of {name}\n", "contents": f"contents {number}\n", "meta": {"pile_set_name": name},
     "metadata": {"pile_set_name": [name, "Pile-CC"]}}
    for number, name in enumerate(["Github", "ArXiv", "Github", "HackerNews", "Github"] * 40)
]  # fmt: skip


def lines(records: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def parquet(records: list[dict[str, object]]) -> bytes:
    import pyarrow as pa
    from pyarrow.parquet import write_table

    file = io.BytesIO()
    write_table(pa.Table.from_pylist(records), file, row_group_size=16)
    return file.getvalue()


PACKED = {
    "jsonl": lines,
    "jsonl.gz": lambda records: gzip.compress(lines(records)),
    "json.gz": lambda records: gzip.compress(lines(records)),
    "jsonl.zst": lambda records: zstandard.compress(lines(records)),
    "parquet": parquet,
}


def put(hub: Hub, kind: str = "jsonl", repo: str = "timaeus/some", split: str = "train") -> None:
    """Put the records into three shards, the names in the order of the content."""
    files = {
        f"data/{split}-{part:05d}-of-00003.{kind}": PACKED[kind](RECORDS[start : start + 70])
        for part, start in enumerate(range(0, 200, 70))
    }
    hub.put(repo, {**files, "README.md": b"---\nlicense: other\n---\n"}, kind="datasets")


def texts(**options: object) -> list[str]:
    return list(documents.documents(Dataset("hub", path="timaeus/some", **options)))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", PACKED)
def test_the_documents_come_in_the_order_of_the_shards(hub: Hub, kind: str) -> None:
    put(hub, kind)
    assert texts() == [record["text"] for record in RECORDS]
    assert texts(text="contents", limit=75) == [record["contents"] for record in RECORDS[:75]]


@pytest.mark.parametrize("kind", ["jsonl.zst", "parquet"])
@pytest.mark.parametrize("field", ["meta.pile_set_name", "metadata.pile_set_name"])
def test_a_filter_on_a_nested_name_or_list_and_the_first_of_what_it_keeps(hub: Hub, kind: str, field: str) -> None:
    put(hub, kind)
    kept = [record["text"] for record in RECORDS if record["meta"]["pile_set_name"] == "ArXiv"]  # type: ignore[index]
    assert texts(where=f'{field} == "ArXiv"') == kept
    assert texts(where=f'{field} == "ArXiv"', limit=7) == kept[:7]


def test_a_filter_that_keeps_nothing_lists_the_names_seen(hub: Hub) -> None:
    put(hub)
    with pytest.raises(Mistake) as mistake:
        texts(where='meta.pile_set_name == "Books3"')
    assert str(mistake.value) == (
        "where: 'meta.pile_set_name == \"Books3\"' keeps no document of 'timaeus/some'; "
        "values of meta.pile_set_name there: 'Github', 'ArXiv', 'HackerNews'."
    )


def test_only_the_shards_that_are_needed_are_read(hub: Hub) -> None:
    put(hub)
    assert len(texts(limit=60)) == 60
    assert [name for name in hub.sent if "train" in name] == ["timaeus/some@main/data/train-00000-of-00003.jsonl"]


def test_a_folder_laid_out_as_a_dataset_serves_too(tmp_path: Path, hub: Hub) -> None:
    (tmp_path / "set" / "data").mkdir(parents=True)
    for part in (0, 1):
        (tmp_path / "set" / "data" / f"train-{part:05d}.parquet").write_bytes(parquet(RECORDS[100 * part :][:100]))
    found = documents.documents(Dataset("hub", path=str(tmp_path / "set")))
    assert list(found) == [record["text"] for record in RECORDS]
    assert not hub.sent


def test_the_conversion_to_parquet_is_another_revision(hub: Hub) -> None:
    repo = "codeparrot/github-code-clean"
    hub.put(repo, {"github-code-clean.py": b"raise SystemExit"}, kind="datasets")
    hub.put(
        repo,
        {f"all-all/partial-train/{part:04d}.parquet": parquet([{"code": f"def f{part}(): pass"}]) for part in (0, 1)}
        | {"Python-all/partial-train/0000.parquet": parquet([{"code": "other"}])},
        revision="refs/convert/parquet",
        kind="datasets",
    )
    preset = composition.compose(["source=paper", "data=[github_code]"]).data["github_code"]
    assert list(documents.documents(preset)) == ["def f0(): pass", "def f1(): pass"]
    with pytest.raises(Mistake, match="needs a script, which is never run; where the hub converted it, give revision"):
        list(documents.documents(dataclasses.replace(preset, revision=None, files=None)))


def test_the_presets_say_what_the_facts_are(hub: Hub) -> None:
    names = ["dsir_pile", "pile_github", "pile_arxiv", "pile_uncopyrighted", "pile10k"]
    found = composition.compose(["source=paper", f"data=[{','.join(names)}]"]).data
    assert [(each.path, each.text) for each in found.values()] == [
        ("timaeus/dsir-pile-1m-2", "contents"), ("timaeus/pile-github", "text"), ("timaeus/pile-arxiv", "text"),
        ("monology/pile-uncopyrighted", "text"), ("NeelNanda/pile-10k", "text"),
    ]  # fmt: skip
    assert not hub.sent


def test_a_preset_is_the_hub_with_what_differs_and_has_keys_of_its_own() -> None:
    presets = {
        path.stem for path in (resources.files("rllc.conf") / "data").iterdir() if "hub@_here_" in path.read_text()
    }
    words = ["data.hub.path=a/b", "data.hub.limit=3", "data.hub.pool=9", "data.pile_cc.split=test"]
    found = composition.compose([f"data=[stdlib_mix,hub,{','.join(sorted(presets))}]", *words]).data
    assert len(presets) >= 14
    assert found["hub"] == Dataset("hub", path="a/b", limit=3, pool=9)
    assert found["pile_cc"] == Dataset("hub", path="timaeus/pile-pile-cc", limit=20000, split="test")
    assert found["pile10k"] == Dataset("hub", path="NeelNanda/pile-10k")
    assert all(found[name].pool == 1024 and found[name].path != "a/b" for name in presets)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses before further tries, which are not slept."""
    slept: list[float] = []
    monkeypatch.setattr("rllc.data.shards.time.sleep", slept.append)
    return slept


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.zst", "jsonl.gz", "parquet"])
def test_a_connection_that_breaks_is_tried_again_and_nothing_comes_twice(
    hub: Hub, kind: str, quick: list[float]
) -> None:
    put(hub, kind)
    hub.broken = {f"data/train-00001-of-00003.{kind}": 1}
    assert texts() == [record["text"] for record in RECORDS]
    assert len(quick) <= 1


@pytest.mark.parametrize("kind", ["jsonl.zst", "jsonl.gz", "parquet"])
def test_a_truncated_shard_is_tried_again_and_then_named(hub: Hub, kind: str, quick: list[float]) -> None:
    put(hub, kind)
    files = hub.repos["datasets", "timaeus/some"]["main"]
    name = f"data/train-00001-of-00003.{kind}"
    files[name] = files[name][: len(files[name]) - 40]
    with pytest.raises(Mistake) as mistake:
        texts()
    sha = commit("timaeus/some", "main", files)
    assert str(mistake.value).startswith(f"path: shard datasets/timaeus/some@{sha}/{name} broke off after ")
    assert "4 times in a row" in str(mistake.value)
    assert tuple(quick) == shards.PAUSES


def test_what_is_asked_wrongly_is_not_tried_again(hub: Hub, quick: list[float]) -> None:
    put(hub)
    with pytest.raises(
        Mistake, match=r"text: .*train-00000-of-00003\.jsonl, line 1 has no field 'body'; its fields are"
    ):
        texts(text="body")
    assert not quick


def test_tokens_of_another_tokenizer_are_refused(hub: Hub) -> None:
    hub.put("timaeus/some", {"train.jsonl": lines([{"input_ids": [1, 2, 3]}])}, kind="datasets")
    with pytest.raises(
        Mistake, match="has tokens in the field 'input_ids', made with a tokenizer that is not the run's"
    ):
        texts(text="input_ids")


def said(**options: object) -> str:
    with pytest.raises(Mistake) as mistake:
        texts(**options)
    assert "\n" not in str(mistake.value)
    return str(mistake.value)


def test_what_is_not_there_is_named(hub: Hub) -> None:
    assert said() == "path: there is no dataset timaeus/some on the hub, or it is private and HF_TOKEN is not set."
    put(hub, split="test")
    assert said() == "split: timaeus/some has no split 'train'; it has: test."
    assert "there is no revision 'v2' of timaeus/some" in said(revision="v2")
    assert said(subset="small").startswith("subset: 'small' of timaeus/some: ")
    assert "timaeus/some has no such files that can be read" in said(files="*.parquet")


def test_a_gated_set_is_refused_with_what_serves_instead(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    put(hub)
    hub.gated.add("timaeus/some")
    assert said().startswith("path: timaeus/some is gated: accept its terms on its page, then set HF_TOKEN")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert texts()
    assert hub.authorizations == {"Bearer hf_secret"}


@pytest.mark.parametrize("path", datasets_of_the_hub.REFUSED)
def test_sets_that_are_known_not_to_serve_are_refused_before_any_work(path: str, hub: Hub) -> None:
    with pytest.raises(Mistake, match=f"path: {path} cannot be used: .*; take "):
        documents.fingerprint(Dataset("hub", path=path))
    assert not hub.sent


def test_without_a_network_what_was_made_serves_and_the_rest_says_how(
    hub: Hub, tmp_path: Path, bpe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(hub)
    dataset = Dataset("hub", path="timaeus/some")
    build = lambda each: rows.build(  # noqa: E731
        "some", each, tokenizer=bpe, n_ctx=8, split="pool", folder=tmp_path / "rows"
    )
    made = build(dataset)
    pieces = [record["text"] for record in RECORDS if split.side(str(record["text"])) == "pool"]
    whole = np.concatenate([*packing.pack(pieces, tokenizer.load(bpe), 8)])  # type: ignore[arg-type]
    assert {row.tobytes() for row in made.array()} == {row.tobytes() for row in whole}
    directed(monkeypatch, "http://127.0.0.1:9", str(tmp_path / "nothing"))
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert build(dataset) == made
    with pytest.raises(Mistake) as mistake:
        build(dataclasses.replace(dataset, limit=10))
    assert str(mistake.value).startswith(
        "data.some.path: timaeus/some cannot be reached, and no rows of it were made here yet; where there is a network"
    )


def test_the_same_rows_on_every_machine(hub: Hub, tmp_path: Path, bpe: Path) -> None:
    put(hub, "parquet")
    made = [
        rows.build("some", Dataset("hub", path="timaeus/some"), tokenizer=bpe, n_ctx=8, split="pool", folder=folder)
        for folder in (tmp_path / "a", tmp_path / "b")
    ]
    assert made[0].digest == made[1].digest
    assert np.array_equal(made[0].array(), made[1].array())

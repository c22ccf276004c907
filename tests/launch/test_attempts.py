from pathlib import Path

from rllc.launch import attempts
from rllc.launch.attempts import Attempts


def test_a_task_is_spent_when_its_starts_were_all_cut_short(tmp_path: Path) -> None:
    tried = Attempts(tmp_path / "attempts" / "0000.jsonl", most=2)
    assert (tried.spent(), tried.failed(), tried.begun()) == (set(), set(), 0)
    tried.begin("killed")
    assert tried.spent() == set()
    tried.begin("killed")
    for key, how in (("stopped", "stopped"), ("done", "done"), ("failed", "failed")):
        for _ in range(2):
            tried.begin(key)
            tried.end(key, how)  # type: ignore[arg-type]
    tried.begin("stopped")
    assert tried.spent() == {"killed"}
    assert tried.failed() == {"failed"}
    assert tried.begun() == 9


def test_what_a_killed_writer_left_torn_counts_for_nothing(tmp_path: Path) -> None:
    file = tmp_path / "0000.jsonl"
    file.write_text('{"key": "a"}\n{"key": "a", "en\n[1]\n{"other": 1}\n{"key": "a"}\n')
    assert Attempts(file, most=2).spent() == {"a"}
    assert Attempts(file, most=3).spent() == set()


def test_attempts_lie_beside_their_shard() -> None:
    assert attempts.beside(Path("s/slurm/001/shards/0007.jsonl")) == Path("s/slurm/001/attempts/0007.jsonl")

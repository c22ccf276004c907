"""Which tasks a share has begun, a line each: what its worker was killed by again and again is passed over.

Lines are `{"key": …}` when a task begins and `{"key": …, "end": "done" | "failed" | "stopped"}` when it ends. A start
that has neither an end nor a result was cut short: its process was killed. One that was stopped (the time limit, a
preemption, a full disk) is not held against its task.
"""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rllc import store

End = Literal["done", "failed", "stopped"]


@dataclass(frozen=True)
class Attempts:
    """The record of one share in one submission.

    Attributes:
        file: where it is kept; only the share's own worker writes it.
        most: starts that a task may have.
    """

    file: Path
    most: int

    def begin(self, key: str) -> None:
        """Say that a task begins."""
        self._append({"key": key})

    def end(self, key: str, how: End) -> None:
        """Say how it ended."""
        self._append({"key": key, "end": how})

    def failed(self) -> set[str]:
        """Keys of the tasks that failed."""
        return {line["key"] for line in self._lines() if line.get("end") == "failed"}

    def cut(self) -> Counter[str]:
        """How often each task was begun and ended in nothing, where that happened."""
        starts, ended = Counter[str](), set[str]()
        for line in self._lines():
            end = line.get("end")
            starts[line["key"]] += 1 if end is None else -1 if end == "stopped" else 0
            if end in ("done", "failed"):
                ended.add(line["key"])
        return Counter({key: count for key, count in starts.items() if count > 0 and key not in ended})

    def spent(self) -> set[str]:
        """Keys of the tasks that have had all their starts, and ended in none."""
        return {key for key, count in self.cut().items() if count >= self.most}

    def begun(self) -> int:
        """How many starts there were."""
        return sum("end" not in line for line in self._lines())

    def _append(self, line: dict[str, str]) -> None:
        self.file.parent.mkdir(exist_ok=True)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _lines(self) -> list[dict[str, str]]:
        if not self.file.exists():
            return []
        with self.file.open("rb") as file:
            return [line for line in store.parse(file) if "key" in line]


def beside(shard: Path) -> Path:
    """The file of a shard's attempts: …/shards/0000.jsonl has …/attempts/0000.jsonl."""
    return shard.parent.parent / "attempts" / shard.name

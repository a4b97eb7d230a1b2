"""What bench/data.py lets processes of their own do.

Python bench/data_parts.py PART FOLDER [NUMBER] [shared].

`write` and `pools` write NUMBER short samples, or pools, into FOLDER; `read` and `rank` read them.
Each prints how many it wrote or read, and how many seconds of the clock that took, without starting
Python.
"""

import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

Row = dict[str, Any]
DISTRACTORS = 1_000


def write(folder: Path, count: int) -> int:
    """Write `count` short samples by the release writer."""
    from short_samples import write_samples

    write_samples(folder, count)
    return count


def read(folder: Path) -> int:
    """Read every row by the release reader, as a sample; return how many."""
    from alps.data.release import read_samples
    from alps.tasks.extraction import read_sample

    return sum(1 for _ in read_samples(folder / "dev" / "task1", read_sample))


def pools(folder: Path, count: int, *, shared: bool) -> int:
    """Write `count` pools of 1,001 candidates.

    `shared`: of values that come back, else every value is a new one.
    """
    from retrieval import synthetic_pools

    from alps.data.release import write_track

    drawn = islice(synthetic_pools(shared=shared, queries=count), count)
    return write_track(folder / "dev" / "task3" / f"d{DISTRACTORS}", _rows(drawn))


def _rows(drawn: Iterator[tuple[str, list[str]]]) -> Iterator[tuple[Row, Row]]:
    for number, (query, values) in enumerate(drawn):
        ids = {"benchmark_id": f"query_{number}", "session_id": f"s_{number}", "task": "task3"}
        candidates = [
            {
                "memory_id": f"m{at % 9}",
                "value": value,
                "label": "Preferences/Interaction_Preferences",
            }
            for at, value in enumerate(values)
        ]
        gold = candidates[number % len(candidates)]
        asked = {"query": query, "candidate_memories": candidates}
        yield (
            {**ids, "input": asked},
            {**ids, "gold": {"selected_memory_id": gold["memory_id"], "selected_memory": gold}},
        )


def rank(folder: Path) -> int:
    """Read every pool by the release reader, and rank it by BM25.

    Return how many candidates were ranked.
    """
    from alps.data.release import read_samples
    from alps.systems.embedded import retriever
    from alps.tasks import load_task
    from alps.tasks.retrieval import read_sample

    task, bm25 = load_task("retrieval"), retriever("bm25")
    ranked = 0
    for sample in read_samples(folder / "dev" / "task3" / f"d{DISTRACTORS}", read_sample):
        answer = bm25.answer_at_once(task, sample).prediction
        ranked += len(answer["ranking"]) if answer is not None else 0
    return ranked


def main(words: list[str]) -> None:
    """Do the part that is named, and print what it came to."""
    part, folder, count = words[0], Path(words[1]), int(words[2]) if len(words) > 2 else 0
    started = time.perf_counter()
    if part == "pools":
        done = pools(folder, count, shared="shared" in words)
    elif part == "write":
        done = write(folder, count)
    else:
        done = {"read": read, "rank": rank}[part](folder)
    print(done, time.perf_counter() - started)


if __name__ == "__main__":
    main(sys.argv[1:])

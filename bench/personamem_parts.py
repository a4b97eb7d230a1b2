"""What bench/personamem.py lets processes of their own do.

Python bench/personamem_parts.py PART FOLDER SIZE.

`write` writes six generated personas; `search` reads and checks their questions, builds the index
of the histories, and finds five turns before each question by BM25; `slices` reads two slices
alone. Each prints what it took as one line of JSON.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PERSONAS = 6
SLICE = 100
"""The slice that is compared with the first: far from it in the file."""
READINGS = 21
"""Times that a slice is read; the fastest is what reading takes, the rest is the machine's."""


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what `work` returns, and the seconds of the clock that it took."""
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def write(folder: Path, size: str) -> dict[str, float]:
    """Write the generated set."""
    from alps.tasks.personamem.personas import write_set

    count, seconds = timed(lambda: write_set(folder, personas=PERSONAS, size=size))
    return {"questions": count, "seconds": seconds}


def search(folder: Path, size: str) -> dict[str, float]:
    """Prepare, index and search the whole set once, by what `memory=bm25` does."""
    from alps.ext.memory.embedded import open_memory
    from alps.tasks.base import TaskOptions
    from alps.tasks.personamem.task import RECALL, open_records

    records, preparing = timed(lambda: open_records(str(folder), TaskOptions(size=size)))
    samples = list(records.samples())
    there, indexing = timed(lambda: [one.files.holds(one.question) for one in samples])
    if not all(there):
        sys.exit("a history is missing")
    memory = open_memory("bm25", k=5, max_tokens=None)

    async def recall() -> float:
        turns = 0
        for sample in samples:
            shown = await memory.recall(RECALL, sample)
            turns += sample.question.end
            if len(shown.turns) != 5:
                sys.exit("five turns were asked for")
        return turns / len(samples)

    turns, recalling = timed(lambda: asyncio.run(recall()))
    return {
        "questions": len(samples),
        "turns": turns,
        "preparing": preparing,
        "indexing": indexing,
        "recalling": recalling,
    }


def slices(folder: Path, size: str) -> dict[str, float]:
    """Read the first slice and a late one, each with files opened anew and the index kept.

    Seconds are those of one megabyte of the slice: the questions of a set end in several places.
    """
    from alps.tasks.personamem.release import open_personamem

    questions = list(open_personamem(folder, size).read())
    compared = {"first": questions[0], "late": questions[SLICE - 1]}
    costs = dict.fromkeys(compared, float("inf"))
    for _ in range(READINGS):
        # In turns: what else the machine does in a moment hits both.
        for name, question in compared.items():
            files = open_personamem(folder, size)
            files.holds(question)
            gc.collect()  # of the reading before, which this one must not pay for
            history, seconds = timed(lambda opened=files, asked=question: opened.history(asked))
            letters = sum(len(turn.text) for turn in history)
            costs[name] = min(costs[name], seconds / (letters / 1e6))
    return costs


def main() -> None:
    """Do one part and print what it took."""
    part, folder, size = sys.argv[1:]
    work = {"write": write, "search": search, "slices": slices}[part]
    print(json.dumps(work(Path(folder), size)))


if __name__ == "__main__":
    main()

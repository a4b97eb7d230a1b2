"""Data of a short record or two for each task that a memory system is scored on."""

import csv
import json
from itertools import islice

from alps.data.pools import PoolSource
from alps.data.release import GOLD, INPUT, open_split
from alps.tasks.personamem.personas import write_set

CANDIDATES = 12
ENDS = (45, 20, 80)
"""How many turns of one history come before each question; it is a session of a few turns each."""
TRACKS = ("task1", "task2", *(f"task4_ability{number}" for number in range(1, 6)))


def write_data(folder):
    """Write the first record of each track of the samples, and questions about one history."""
    samples = open_split("samples", None)
    for track in TRACKS:
        files = {}
        for name in (INPUT, GOLD):
            with (samples.folder / track / name).open() as lines:
                files[name] = json.loads(next(lines))
        _write_track(folder / "dev" / track, *files.values())
    for row, gold in islice(PoolSource(samples, seed=0).rows(100), 1):
        target = gold["gold"]["selected_memory_id"]
        pool = row["input"]["candidate_memories"]
        pool.sort(key=lambda one: one["memory_id"] != target)
        row["input"]["candidate_memories"] = pool[:CANDIDATES]
        _write_track(folder / "dev" / "task3" / "d100", row, gold)
    _write_questions(folder)


def _write_track(folder, row, gold):
    folder.mkdir(parents=True)
    (folder / INPUT).write_text(json.dumps(row) + "\n")
    (folder / GOLD).write_text(json.dumps(gold) + "\n")


def _write_questions(folder):
    write_set(folder, personas=1, size="32k")
    path = folder / "questions_32k.csv"
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))[: len(ENDS)]
    with path.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, rows[0])
        writer.writeheader()
        for row, end in zip(rows, ENDS, strict=True):
            writer.writerow({**row, "end_index_in_shared_context": end})

"""Annotations of two people in the release layout, written for tests, with the draft beside them.

In each of eight sessions both keep the draft's first memory. The first person rewrites the second,
the second person drops it; both add one of their own, which say the same in sessions 0 and 1 alone.
"""

from pathlib import Path
from typing import Any

from alps.data.release import write_track
from tests.endtoend import write_rows

SESSIONS = 8
SOUP = "Which soup shall I cook tonight?"
PEOPLE = ("annotator_1", "annotator_2")


def memory(value: str, **more: Any) -> dict[str, Any]:
    """Return a memory as annotators leave it."""
    said = {"type": "direct", "label": "Preferences/Food", "confidence": 0.8}
    return {"memory_id": "m1", "value": value, **said, "time_scope": "long_term", **more}


def kept(n: int) -> dict[str, Any]:
    return memory(f"Likes soup number {n} on most days")


def session(n: int, who: int) -> dict[str, Any]:
    """Return what a person left of a session."""
    agrees = n < 2
    added = "Keeps two old donkeys" if agrees or not who else "Collects stamps from Peru"
    first = memory(f"LIKES soup  number {n} on most days") if who else kept(n)
    memories = [first, memory(added, label=None, time_scope=None, confidence="0.50")]
    if not who:
        memories.append(memory(f"Owns a boat called Tern {n}", type="indirect"))
    if n == 0:
        memories[0] |= {"type": "indirect"} if who else {}
    query = "Where do my donkeys sleep?" if who and n == 3 else SOUP
    said = {"overallVerdict": "reasonable", "ability": "ability1", "memoryDependency": "strong"}
    return {
        "session_id": f"s{n}",
        "pair": "pair1",
        "task1": {"memories": memories, "verdict": "reasonable"},
        "task2": {"memories": memories[:1], "action": "modification"},
        "task3": {"query": query, "memory": memories[0] if n != 5 else memories[who]},
        "task4": {"memory": first, "queries": [{"queryId": f"q{n}", "queryText": query, **said}]},
    }


def write_annotations(root: Path, *, draft: bool = True) -> Path:
    """Write a release with annotations; return the folder of the annotations."""
    folder = root / "annotations"
    folder.mkdir(parents=True)
    for who, name in enumerate(PEOPLE):
        write_rows(folder / f"{name}.jsonl", [session(n, who) for n in range(SESSIONS)])
    if draft:
        write_draft(root / "benchmark_data" / "dev")
    return folder


def write_draft(split: Path) -> None:
    """Write what both started from in the release layout."""
    extraction, pools = [], []
    for n in range(SESSIONS):
        about = {"session_id": f"s{n}"}
        items = [kept(n), memory(f"Owns a ship called Tern {n}")]
        row = {"benchmark_id": f"s{n}__1", **about}
        extraction.append((row | {"input": {}}, row | {"gold": {"memory_items": items}}))
        row = {"benchmark_id": f"s{n}", **about}
        asked = {"input": {"query": SOUP}}
        pools.append((row | asked, row | {"gold": {"selected_memory": items[0]}}))
    write_track(split / "task1", extraction)
    write_track(split / "task3" / "d100", pools)

"""Rows as an audit reads them: whatever is broken is counted, never raised."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from alps.data.audit_findings import Tally
from alps.data.release import GOLD, INPUT, JoinError, Row, read_track
from alps.text import fold

Turns = list[tuple[str, str]]
MISALIGNED, EMPTY = "misaligned-row", "empty-row"
DIALOGUES = (
    ("input", "dialogue"),
    ("input", "old_dialogue"),
    ("input", "new_dialogue"),
    ("input", "model_input", "dialogue_history"),
    ("input", "audit_context", "conversation"),
)
_NEEDED = {"task1": DIALOGUES[:1], "task2": DIALOGUES[1:3]}


def task_of(track: str) -> str:
    """Return `task1` … `task4` of a track."""
    return track.partition("/")[0].partition("_")[0]


def at(node: Any, *path: str) -> Any:
    """Return what stands at a path of keys, None where the path breaks off."""
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node


def text_at(node: Any, *path: str) -> str:
    """Return the text at a path of keys, the empty string where there is none."""
    text = at(node, *path)
    return text if isinstance(text, str) else ""


def dicts_at(node: Any, *path: str) -> list[Row]:
    """Return the objects of the list at a path of keys."""
    items = at(node, *path)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def folded_values(items: Iterable[Row]) -> list[str]:
    """Return the values of memories, folded."""
    return [fold(text_at(item, "value")) for item in items]


def ids_of(items: Iterable[Row]) -> set[str]:
    """Return the ids of memories."""
    return {text_at(item, "memory_id") for item in items}


def joined_texts(turns: Turns) -> str:
    """Return all that is said in turns, folded."""
    return fold(" ".join(text for _, text in turns))


def turns_at(node: Any, *path: str) -> Turns:
    """Return the turns at a path of keys as (role, text)."""
    return [(text_at(turn, "role"), text_at(turn, "text")) for turn in dicts_at(node, *path)]


def conversation(row: Row) -> Turns:
    """Return every turn that an input row shows or hides, each dialogue once."""
    dialogues: list[Turns] = []
    for path in DIALOGUES:
        turns = turns_at(row, *path)
        if turns not in dialogues:
            dialogues.append(turns)
    return list(chain.from_iterable(dialogues))


def queries(row: Row) -> list[str]:
    """Return the queries of a retrieval or utilization row.

    `input.queries` where there are several.
    """
    several = [text_at(item, "query") for item in dicts_at(row, "input", "queries")]
    return several or [
        text_at(row, "input", "query") or text_at(row, "input", "model_input", "query")
    ]


def gold_memories(gold: Row | None) -> list[Row]:
    """Return the memories of a gold row, whatever the task.

    One that stands in two of its fields is given once.
    """
    memories = [*dicts_at(gold, "gold", "memory_items"), *dicts_at(gold, "gold", "answer")]
    others = dicts_at(gold, "gold", "extracted_memory")
    selected = at(gold, "gold", "selected_memory")
    if isinstance(selected, dict):
        same = fold(text_at(selected, "value"))
        others = [item for item in others if fold(text_at(item, "value")) != same]
        memories.append(selected)
    return [*memories, *others]


_DETAILS = {
    "unreadable": ("the line is not a JSON object", "can't be read"),
    "nameless": ("the row has no benchmark_id", "can't be joined"),
    "orphan": ("the gold row has no input row", f"not in {INPUT}"),
}


def joined(
    folder: Path, tally: Tally, *, with_gold: bool = True
) -> Iterator[tuple[str, Row, Row | None]]:
    """Yield (id, input row, gold row or None) of a track in the order of the input.

    A run stops at the first row that can't be joined; an audit counts it and goes on.
    """

    def count(fault: JoinError) -> None:
        if fault.path == folder / INPUT or fault.kind == "orphan":
            tally.look("rows")
        if fault.kind == "twice":
            detail = "the benchmark_id stands twice in a file"
            tally.find(MISALIGNED, "serious", detail, fault.name, fault.place)
        else:
            detail, what = _DETAILS[fault.kind]
            tally.find(MISALIGNED, "serious", detail, fault.name or fault.place, what)

    expected = with_gold and (folder / GOLD).is_file()
    for pair in read_track(folder, with_gold=with_gold, on_fault=count):
        tally.look("rows")
        name = pair.input["benchmark_id"]
        if pair.gold is None and expected:
            detail = "the input row has no gold row"
            tally.find(MISALIGNED, "serious", detail, name, f"not in {GOLD}")
        yield name, pair.input, pair.gold


def check_alignment(name: str, row: Row, gold: Row | None, tally: Tally) -> None:
    """Count what shows that the parts of a record don't belong together: `misaligned-row`, serious.

    Looked at: session ids in input, metadata and gold; the conversation in input and gold; the
    query and the first of `queries`; the memory that `memory_key` names.
    """
    session, query = text_at(row, "session_id"), text_at(row, "input", "query")
    shown = turns_at(row, "input", "model_input", "dialogue_history")
    audited = turns_at(row, "input", "audit_context", "conversation")
    comparisons = [
        ("the session_id differs", session, text_at(row, "input", "metadata", "session_id")),
        ("the session_id differs", session, text_at(gold, "session_id")),
        ("dialogue_history differs from audit_context", shown, audited),
        (
            "the conversation of the gold is not the input's",
            turns_at(gold, "gold", "conversation"),
            shown or audited or turns_at(row, "input", "dialogue"),
        ),
        ("the query differs within the row", query, queries(row)[0]),
        ("the query differs within the row", query, text_at(row, "input", "model_input", "query")),
        (
            "memory_key names another memory",
            text_at(gold, "gold", "memory_key"),
            text_at(gold, "gold", "selected_memory", "memory_id"),
        ),
    ]
    for detail, one, other in comparisons:
        if one and other and one != other:
            what = f"{one} and {other}"
            if isinstance(one, list):
                what = f"{len(one)} and {len(other)} turns"
            elif "query" in detail:
                what = f"«{one:.60}» and «{other:.60}»"
            tally.find(MISALIGNED, "serious", detail, name, what)


def check_emptiness(name: str, row: Row, gold: Row | None, tally: Tally) -> None:
    """Count rows without what their task needs: `empty-row`.

    Serious: no dialogue, no query, a gold memory without text. Warning: a turn without text. Note:
    an empty gold list, which is legitimate.
    """
    memories = gold_memories(gold)
    missing = _missing(task_of(tally.track), row)
    if any(not text_at(item, "value").strip() for item in memories):
        missing.append(("a gold memory without text", "value is empty"))
    for detail, what in missing:
        tally.find(EMPTY, "serious", detail, name, what)
    if blank := sum(not text.strip() for _, text in conversation(row)):
        what = f"{blank} of {len(conversation(row))} turns"
        tally.find(EMPTY, "warning", "a turn without text", name, what)
    if gold is not None and not memories:
        tally.find(EMPTY, "note", "an empty gold list", name, "no memory is right here")


def _missing(task: str, row: Row) -> list[tuple[str, str]]:
    missing = []
    for path in _NEEDED.get(task, ()):
        if not turns_at(row, *path):
            missing.append(("no dialogue", f"{'.'.join(path)} is empty"))
    if task == "task4" and not conversation(row):
        missing.append(("no dialogue", "neither dialogue_history nor conversation"))
    if task in ("task3", "task4") and not all(query.strip() for query in queries(row)):
        missing.append(("no query", "the query is empty"))
    return missing

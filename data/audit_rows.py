"""How an audit reads a track.

Rows are joined where they can be, and what can't be is counted, never raised.

`read_track` stops at the first row that can't be joined, as a run must. An audit goes on, and finds
the others.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from alps.data.audit_findings import Tally
from alps.data.release import GOLD, INPUT, Row
from alps.jsonl import parse_json
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
    found = at(node, *path)
    return found if isinstance(found, str) else ""


def dicts_at(node: Any, *path: str) -> list[Row]:
    """Return the objects of the list at a path of keys."""
    found = at(node, *path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def turns_at(node: Any, *path: str) -> Turns:
    """Return the turns at a path of keys as (role, text)."""
    return [(text_at(turn, "role"), text_at(turn, "text")) for turn in dicts_at(node, *path)]


def conversation(row: Row) -> Turns:
    """Return every turn that an input row shows or hides, each dialogue once."""
    found: list[Turns] = []
    for path in DIALOGUES:
        turns = turns_at(row, *path)
        if turns and turns not in found:
            found.append(turns)
    return [turn for turns in found for turn in turns]


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
    found = [*dicts_at(gold, "gold", "memory_items"), *dicts_at(gold, "gold", "answer")]
    selected = at(gold, "gold", "selected_memory")
    if isinstance(selected, dict):
        others = dicts_at(gold, "gold", "extracted_memory")
        same = fold(text_at(selected, "value"))
        found += [selected, *(item for item in others if fold(text_at(item, "value")) != same)]
    else:
        found += dicts_at(gold, "gold", "extracted_memory")
    return found


def joined(
    folder: Path, tally: Tally, *, with_gold: bool = True
) -> Iterator[tuple[str, Row, Row | None]]:
    """Yield (id, input row, gold row or None) of a track in the order of the input.

    Count the rows that don't join.

    Only the places of the gold rows are kept in memory. Without `with_gold` the gold file is not
    opened.
    """
    places = _places(folder / GOLD, tally) if with_gold else None
    seen: set[str] = set()
    gold_file = (folder / GOLD).open("rb") if places is not None else None
    try:
        for line, _, row in _lines(folder / INPUT):
            tally.look("rows")
            name = _identify(row, f"{INPUT} line {line}", seen, tally)
            if name is None or row is None:
                continue
            gold = None
            if gold_file is not None and places is not None and name in places:
                gold_file.seek(places[name])
                gold = parse_json(gold_file.readline())
            elif gold_file is not None:
                tally.find(
                    MISALIGNED, "serious", "the input row has no gold row", name, f"not in {GOLD}"
                )
            yield name, row, gold
    finally:
        if gold_file is not None:
            gold_file.close()
    for name in places or ():
        if name not in seen:
            tally.look("rows")
            tally.find(
                MISALIGNED, "serious", "the gold row has no input row", name, f"not in {INPUT}"
            )


def _identify(row: Row | None, place: str, seen: set[str], tally: Tally) -> str | None:
    """Return the id of a row, None (and a find) where it has none that can be used."""
    name = text_at(row, "benchmark_id")
    if row is None:
        tally.find(MISALIGNED, "serious", "the line is not a JSON object", place, "can't be read")
    elif not name:
        tally.find(MISALIGNED, "serious", "the row has no benchmark_id", place, "can't be joined")
    elif name in seen:
        tally.find(MISALIGNED, "serious", "the benchmark_id stands twice in a file", name, place)
    else:
        seen.add(name)
        return name
    return None


def _places(path: Path, tally: Tally) -> dict[str, int] | None:
    if not path.is_file():
        return None
    places: dict[str, int] = {}
    seen: set[str] = set()
    for line, offset, row in _lines(path):
        name = _identify(row, f"{GOLD} line {line}", seen, tally)
        if name is not None:
            places[name] = offset
    return places


def _lines(path: Path) -> Iterator[tuple[int, int, Row | None]]:
    """Yield the number, the offset and the object of every line that is not blank."""
    offset = 0
    with path.open("rb") as file:
        for line, raw in enumerate(file, start=1):
            if raw.strip():
                try:
                    row = parse_json(raw)
                except (ValueError, RecursionError):
                    row = None
                yield line, offset, row if isinstance(row, dict) else None
            offset += len(raw)


def rows_of(path: Path) -> Iterator[Row]:
    """Yield the objects of a JSON lines file; lines that can't be read are left out."""
    return (row for _, _, row in _lines(path) if row is not None)


def check_alignment(name: str, row: Row, gold: Row | None, tally: Tally) -> None:
    """Count what shows that the parts of a record don't belong together: `misaligned-row`, serious.

    Looked at: session ids in input, metadata and gold; the conversation in input and gold; the
    query and the first of `queries`; the memory that `memory_key` names.
    """

    def found(detail: str, what: str) -> None:
        tally.find(MISALIGNED, "serious", detail, name, what)

    session = text_at(row, "session_id")
    for other in (text_at(row, "input", "metadata", "session_id"), text_at(gold, "session_id")):
        if session and other and other != session:
            found("the session_id differs", f"{session} and {other}")
    shown = turns_at(row, "input", "model_input", "dialogue_history")
    audited = turns_at(row, "input", "audit_context", "conversation")
    if shown and audited and shown != audited:
        found(
            "dialogue_history differs from audit_context", f"{len(shown)} and {len(audited)} turns"
        )
    kept, own = (
        turns_at(gold, "gold", "conversation"),
        shown or audited or turns_at(row, "input", "dialogue"),
    )
    if kept and own and kept != own:
        found(
            "the conversation of the gold is not the input's", f"{len(kept)} and {len(own)} turns"
        )
    query = text_at(row, "input", "query")
    for other in (*queries(row)[:1], text_at(row, "input", "model_input", "query")):
        if query and other and other != query:
            found("the query differs within the row", f"«{query[:60]}» and «{other[:60]}»")
    key, selected = (
        text_at(gold, "gold", "memory_key"),
        text_at(gold, "gold", "selected_memory", "memory_id"),
    )
    if key and selected and key != selected:
        found("memory_key names another memory", f"{key} and {selected}")


def check_emptiness(name: str, row: Row, gold: Row | None, tally: Tally) -> None:
    """Count rows without what their task needs: `empty-row`.

    Serious: no dialogue, no query, a gold memory without text. Warning: a turn without text. Note:
        an empty gold list,
    which is legitimate.
    """

    def found(severity: Any, detail: str, what: str) -> None:
        tally.find(EMPTY, severity, detail, name, what)

    task = task_of(tally.track)
    for path in _NEEDED.get(task, ()):
        if not turns_at(row, *path):
            found("serious", "no dialogue", f"{'.'.join(path)} is empty")
    if task == "task4" and not conversation(row):
        found("serious", "no dialogue", "neither dialogue_history nor conversation")
    if task in ("task3", "task4") and not all(query.strip() for query in queries(row)):
        found("serious", "no query", "the query is empty")
    if blank := sum(not text.strip() for _, text in conversation(row)):
        found("warning", "a turn without text", f"{blank} of {len(conversation(row))} turns")
    if gold is None:
        return
    if any(not text_at(item, "value").strip() for item in gold_memories(gold)):
        found("serious", "a gold memory without text", "value is empty")
    if not gold_memories(gold):
        found("note", "an empty gold list", "no memory is right here")

"""Verified gold: what people keep, edit, reject and add, as rows of the release layout."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from alps.annotate.decided import Decided
from alps.annotate.items import Answer
from alps.annotate.memories import FIELDS
from alps.annotate.questions import EDIT, REJECT
from alps.data.audit_rows import conversation
from alps.jsonl import Row
from alps.text import fold

# The name of the split that is written.
ANNOTATED = "annotated"
What = Literal["kept", "edited", "rejected", "added", "undecided"]
_EMPTY = ("label_suggestion", "reasoning", "emotion", "preference_attitude", "updated_at")


@dataclass(frozen=True)
class Change:
    """What became of one memory.

    Attributes:
        by: Who says so.
        adjudicated: Who decided, where people differed.
        fields: By the name of each field that is another now, what it was and what it is.
    """

    record: str
    memory_id: str
    what: What
    value: str
    by: tuple[str, ...]
    adjudicated: str | None = None
    fields: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def row(self) -> Row:
        """Return the change as a line of the log has it."""
        fields = {name: {"old": old, "new": new} for name, (old, new) in self.fields.items()}
        return {**vars(self), "by": list(self.by), "fields": fields}


def verified(record: Row, labels: Mapping[str, Decided]) -> tuple[Row, list[Change]] | None:
    """Return the gold row of a record, and what changed in it; None where it is not finished."""
    name, items = record["record"], record["gold"]["gold"]["memory_items"]
    last = labels.get(f"{name}/+")
    if last is None or any(f"{name}/{item['memory_id']}" not in labels for item in items):
        return None
    kept: list[Row] = []
    changes: list[Change] = []
    for item in items:
        one = labels[f"{name}/{item['memory_id']}"]
        new = _new(item, one.answer, record)
        changes.append(_change(name, item, new, one))
        kept += [] if new is None else [new]
    for memory, by in _added(last, record, {item["memory_id"] for item in items}):
        kept.append(memory)
        changes.append(Change(name, memory["memory_id"], "added", memory["value"], by))
    gold = {**record["gold"], "gold": {**record["gold"]["gold"], "memory_items": kept}}
    return gold, changes


def _new(item: Row, answer: Answer | None, record: Row) -> Row | None:
    """Return a memory as people say it is; None where they reject it."""
    if answer is None:
        return item
    return None if answer["verdict"] == REJECT else item | _fields(answer, record, item)


def _fields(answer: Answer, record: Row, old: Row) -> Row:
    """Return the fields that a person gives, with the words that show the memory.

    Who marks no words names the turn alone: a quote out of it stays as it was.
    """
    was = old.get("evidence") or {}
    session = was.get("session_id") or record["input"].get("session_id")
    turn = answer["evidence"]
    same = was.get("text") if was.get("utterance_index") == turn else None
    text = answer["quote"] or same or conversation(record["input"])[turn][1]
    fields = {name: answer[name] for name in FIELDS}
    evidence = {"session_id": session, "utterance_index": turn, "text": text}
    return {**fields, "value": answer["value"], "evidence": evidence}


def _change(record: str, old: Row, new: Row | None, one: Decided) -> Change:
    what: What = "kept"
    fields: dict[str, tuple[Any, Any]] = {}
    if one.answer is None:
        what = "undecided"
    elif new is None:
        what = "rejected"
    else:
        for name in ("value", *FIELDS, "evidence"):
            if old.get(name) != new.get(name):
                fields[name] = (old.get(name), new.get(name))
        what = "edited" if fields or one.answer["verdict"] == EDIT else "kept"
    by = tuple(one.by)
    return Change(record, old["memory_id"], what, old["value"], by, one.adjudicated, fields)


def _added(last: Decided, record: Row, taken: set[str]) -> Sequence[tuple[Row, tuple[str, ...]]]:
    """Return the memories that people add, and who; those that say the same are one."""
    by_value: dict[str, tuple[Answer, list[str]]] = {}
    for name, answers in last.added.items():
        for answer in answers:
            by_value.setdefault(fold(answer["value"]), (answer, []))[1].append(name)
    added: list[tuple[Row, tuple[str, ...]]] = []
    for number, (answer, names) in enumerate(by_value.values(), start=1):
        memory_id = f"added-{number}"
        while memory_id in taken:
            memory_id += "x"
        memory = {"memory_id": memory_id, **dict.fromkeys(_EMPTY), **_fields(answer, record, {})}
        added.append((memory, tuple(dict.fromkeys(names))))
    return added

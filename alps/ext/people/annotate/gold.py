"""Verified gold: what people keep, edit, reject and add, as rows of the release layout."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from alps.ext.datasets.audit_records import conversation
from alps.ext.people.annotate.decided import Added, Decided, Ruling
from alps.ext.people.annotate.items import EDIT, NOTHING, REJECT, Answer
from alps.ext.people.annotate.making import FIELDS
from alps.jsonl import Row

# The name of the split that is written.
ANNOTATED = "annotated"
What = Literal["kept", "edited", "rejected", "added", "undecided"]
_EMPTY = ("label_suggestion", "reasoning", "emotion", "preference_attitude", "updated_at")


@dataclass(frozen=True)
class MemoryChange:
    """Outcome of one memory.

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


def verified(record: Row, labels: Mapping[str, Decided]) -> tuple[Row, list[MemoryChange]] | None:
    """Return the gold row of a record, and what changed in it; None where it is not finished."""
    name, items = record["record"], record["gold"]["gold"]["memory_items"]
    last = labels.get(f"{name}/+")
    unseen = [item for item in items if f"{name}/{item['memory_id']}" not in labels]
    if last is None or unseen or not any(map(_is_last, last.by.values())):
        return None
    kept: list[Row] = []
    changes: list[MemoryChange] = []
    for item in items:
        one = labels[f"{name}/{item['memory_id']}"]
        new = _new(item, one.answer, record)
        changes.append(_change(name, item, new, one))
        kept += [] if new is None else [new]
    taken = {item["memory_id"] for item in items}
    for added, ruling in last.added:
        memory_id = _free_id(taken)
        new = _new({}, _said_of(added, ruling), record)
        if new is not None and (added.agreed or ruling is not None):
            kept.append({"memory_id": memory_id, **dict.fromkeys(_EMPTY), **new})
        changes.append(_addition(name, memory_id, added, ruling))
    gold = {**record["gold"], "gold": {**record["gold"]["gold"], "memory_items": kept}}
    return gold, changes


def _is_last(answer: Answer) -> bool:
    return bool(answer["verdict"] == NOTHING)


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
    # A suggestion belongs to the label that it was made for.
    if old and old.get("label") != answer["label"]:
        fields["label_suggestion"] = None
    return {**fields, "value": answer["value"], "evidence": evidence}


def _change(record: str, old: Row, new: Row | None, one: Decided) -> MemoryChange:
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
    by, decided = tuple(one.by), None if one.ruling is None else one.ruling.by
    return MemoryChange(record, old["memory_id"], what, old["value"], by, decided, fields)


def _said_of(one: Added, ruling: Ruling | None) -> Answer:
    return one.answer if ruling is None else ruling.answer


def _addition(record: str, memory_id: str, one: Added, ruling: Ruling | None) -> MemoryChange:
    """Return what became of a memory that somebody adds."""
    answer = _said_of(one, ruling)
    what: What = "added"
    if ruling is None and not one.agreed:
        what = "undecided"
    elif answer["verdict"] == REJECT:
        what = "rejected"
    value = answer.get("value", one.answer["value"])
    by = None if ruling is None else ruling.by
    return MemoryChange(record, memory_id, what, value, one.by, by)


def _free_id(taken: set[str]) -> str:
    """Return an id that no memory has, and take it."""
    number = 1
    while f"added-{number}" in taken:
        number += 1
    taken.add(f"added-{number}")
    return f"added-{number}"

"""What an audit looks for in gold: rejected items, quotes nobody said, and gold that stands in the
input.
"""

import re
from collections.abc import Iterator
from typing import Any

from rapidfuzz import fuzz

from alps.data.audit_findings import Tally
from alps.data.audit_rows import (
    DIALOGUES,
    Turns,
    conversation,
    dicts_at,
    gold_memories,
    text_at,
    turns_at,
)
from alps.data.release import Row
from alps.rejection import is_rejected
from alps.schema import UNMAPPED
from alps.text import fold, fold_loosely

FUZZY = 80.0
"""Similarity from 0 to 100 (`rapidfuzz.fuzz.partial_ratio`) from which a quote counts as said."""

SHORTEST_FUZZY = 8
"""Characters from which a part of a quote may be found fuzzily; shorter ones must stand there as
they are.
"""

SHORTEST_INSIDE = 12
"""Characters from which a gold value that stands within a longer text gives itself away."""

_OMISSION = re.compile(r"\.{3,}|…|\[…\]|\n")
_LISTS = (("input", "memory"), ("input", "candidate_memories"), *DIALOGUES)
_NAMES = {
    ("benchmark_id",),
    ("session_id",),
    ("canonical_id",),
    ("stratum",),
    ("task",),
    ("ability",),
}
_NO_LABEL = {"", UNMAPPED, "UNKNOWN"}


def check_rejected(name: str, gold: Row | None, tally: Tally) -> None:
    """Count gold memories that carry the mark of rejection, `[ERROR: …]`: `rejected-gold`, a
    warning.
    """
    for item in gold_memories(gold):
        tally.look("gold items")
        value = text_at(item, "value")
        if is_rejected(value):
            detail = "the annotators' second stage rejected the memory"
            tally.find("rejected-gold", "warning", detail, name, value, unit="gold items")


def check_evidence(name: str, row: Row, gold: Row | None, tally: Tally) -> None:
    """Count quotes that no user turn holds: `evidence-not-in-user-turn`, a warning.

    A quote is cut where it leaves something out («…»). Each part must stand in the user's turns
    after loose folding, or reach `FUZZY` there; a quote of which less than half the characters are
    found counts as not said.
    """
    items = [item for item in gold_memories(gold) if text_at(item, "evidence", "text").strip()]
    turns = conversation(row) or turns_at(gold, "gold", "conversation")
    if not items or not turns:
        return
    said = _voice(turns, user=True)
    for item in items:
        quote = text_at(item, "evidence", "text")
        tally.look("quotes")
        if not _is_said(quote, said):
            by_assistant = _is_said(quote, _voice(turns, user=False))
            detail = (
                "the quote stands in assistant's turns only"
                if by_assistant
                else "the quote stands in no turn"
            )
            tally.find(
                "evidence-not-in-user-turn", "warning", detail, name, f"«{quote}»", unit="quotes"
            )


def _voice(turns: Turns, *, user: bool) -> str:
    return fold_loosely("\n".join(text for role, text in turns if (role == "user") == user))


def _is_said(quote: str, said: str) -> bool:
    parts = [
        part
        for part in (fold_loosely(part).strip(" \"'«»“”„") for part in _OMISSION.split(quote))
        if part
    ]
    total = sum(map(len, parts))
    found = 0
    for part in parts:
        if part in said or (
            SHORTEST_FUZZY <= len(part) <= 1.25 * len(said)
            and fuzz.partial_ratio(part, said, score_cutoff=FUZZY)
        ):
            found += len(part)
    return 2 * found >= total


def check_labels(name: str, row: Row, gold: Row | None, tally: Tally) -> None:
    """Count input rows that give their gold away: `label-in-input`.

    Serious: the value or the id of the gold memory stands in the input outside of memory lists,
        candidates and
    dialogues. A value that is also said in the dialogue only counts where a field holds it and
    nothing else. Note:
    `stratum` is the label of the gold memory, or `audit_context` repeats the dialogue; no system
    may be shown either.
    """
    if gold is None:
        return
    values, ids = _secrets(row, gold)
    heard = fold(" ".join(text for _, text in conversation(row)))
    inside = {value for value in values if len(value) >= SHORTEST_INSIDE and value not in heard}
    by_value, by_id = [], []
    for path, text in _leaves(row, ()):
        folded, place = fold(text), ".".join(path)
        if folded in values or any(value in folded for value in inside):
            by_value.append(f"{place}: «{text}»")
        elif text in ids:
            by_id.append(f"{place} is the id of the gold memory, {text}")
    if by_value or by_id:
        detail = "the gold memory stands in the input"
        tally.find("label-in-input", "serious", detail, name, (by_value + by_id)[0])
    _note_labels(name, row, gold, tally)


def _note_labels(name: str, row: Row, gold: Row, tally: Tally) -> None:
    stratum = text_at(row, "stratum")
    kept = {text_at(item, "memory_id") for item in dicts_at(row, "input", "memory")}
    labels = {
        text_at(m, "label")
        for m in gold_memories(gold)
        if text_at(m, "memory_id") not in kept or not kept
    }
    if stratum in labels - _NO_LABEL:
        candidates = dicts_at(row, "input", "candidate_memories")
        alike = sum(text_at(candidate, "label") == stratum for candidate in candidates)
        also = f", which {alike} of {len(candidates)} candidates carry" if alike else ""
        tally.find(
            "label-in-input", "note", "stratum is the label of the gold", name, stratum + also
        )
    turns = turns_at(row, "input", "audit_context", "conversation")
    if turns:
        what = f"audit_context.conversation, {len(turns)} turns"
        tally.find("label-in-input", "note", "audit_context repeats the dialogue", name, what)


def _secrets(row: Row, gold: Row) -> tuple[set[str], set[str]]:
    """Return the folded values and the ids that would tell the gold: of an update only what
    changes.
    """
    values = {fold(text_at(item, "value")) for item in gold_memories(gold)}
    if not dicts_at(gold, "gold", "answer"):
        ids = {text_at(gold, "gold", "selected_memory_id"), text_at(gold, "gold", "memory_key")}
        ids.add(text_at(gold, "gold", "selected_memory", "memory_id"))
        return values - {""}, ids - {""}
    old = dicts_at(row, "input", "memory")
    before = {text_at(item, "memory_id") for item in old}
    after = {text_at(item, "memory_id") for item in gold_memories(gold)}
    return values - {fold(text_at(item, "value")) for item in old} - {""}, (before ^ after) - {""}


def _leaves(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every text of an input row that is not in a memory list, among candidates or in a
    dialogue.
    """
    if path in _LISTS or path in _NAMES:
        return
    if isinstance(node, str):
        yield path, node
    elif isinstance(node, dict):
        for key, child in node.items():
            yield from _leaves(child, (*path, str(key)))
    elif isinstance(node, list):
        for child in node:
            yield from _leaves(child, path)


def known_values(row: Row, gold: Row | None) -> Iterator[tuple[str, str]]:
    """Yield (session, folded value) of every memory that the gold of a record says a user has."""
    for item in gold_memories(gold):
        value = fold(text_at(item, "value"))
        for owner in {text_at(row, "session_id"), text_at(item, "evidence", "session_id")} - {""}:
            if value:
                yield owner, value

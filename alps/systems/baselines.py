"""What `model=rules` does beyond extraction: plain answers without a model, above the floors and
below the rest.
"""

from typing import Any

from alps.schema import ExtractionSample, Memory, UpdatedMemory, UpdateSample, UtilizationSample
from alps.similarity import THRESHOLD, similarity
from alps.systems.bm25 import BM25
from alps.systems.rules import extract, find_statements

_ON_THE_SAME_MATTER = 0.35
"""From this similarity up, and under the same label, a new statement replaces the old memory."""
_SURE = 0.65
"""A weaker statement adds nothing to a list that stands: most of them match no gold memory."""


def update(sample: UpdateSample) -> dict[str, Any]:
    """Keep every old memory that no statement of the new dialogue restates differently.

    Add the other statements.
    """
    dialogue = ExtractionSample(
        benchmark_id=sample.benchmark_id,
        session_id=sample.session_id,
        dialogue=sample.new_dialogue,
        gold=None,
    )
    kept = {memory.memory_id: memory for memory in sample.memory}
    changed: list[UpdatedMemory] = []
    for number, item in enumerate(extract(dialogue)["memory_items"], start=1):
        found = Memory.model_validate(item)
        if found.confidence is None or found.confidence < _SURE:
            continue
        near = max(
            kept.values(), key=lambda memory: similarity(memory.value, found.value), default=None
        )
        likeness = similarity(near.value, found.value) if near is not None else 0.0
        if near is None or likeness < _ON_THE_SAME_MATTER or near.label != found.label:
            changed.append(_with(found, f"m_new_{number}", "add", None))
        elif likeness < THRESHOLD:
            del kept[near.memory_id]
            changed.append(_with(found, f"{near.memory_id}_updated", "modify", near.memory_id))
    retained = [_with(memory, memory.memory_id, "retain", None) for memory in kept.values()]
    return {"memory_items": [memory.model_dump() for memory in (*retained, *changed)]}


def quote(sample: UtilizationSample) -> dict[str, Any]:
    """Answer by recalling what the user once said that shares most words with the query."""
    turns = [(turn.role, turn.text) for turn in sample.dialogue]
    said = [statement.value for statement in find_statements(turns, limit=50)]
    if not said:
        return {"answer": f"Nothing that you told me before bears on this: {sample.query}"}
    best = said[BM25().rank(sample.query, said)[0]]
    return {
        "answer": f"Keeping in mind what you told me ({best}), here is how I would go about it: {sample.query}"
    }


def _with(memory: Memory, name: str, action: str, replaces: str | None) -> UpdatedMemory:
    fields = {**memory.model_dump(), "memory_id": name, "action": action, "replaces": replaces}
    return UpdatedMemory.model_validate(fields)
